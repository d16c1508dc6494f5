"""Families of tasks about files whose result is more than a text of its own: names, modes, folders, a digest.

Their shape, and those with a text as the result, are in file_texts.py.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

from pipeline.generators.drafts import filled
from pipeline.generators.file_texts import Family, FileTask, Material, variant

_HEAD = """from pathlib import Path
"""


def checksum(given: Material) -> FileTask | None:
    """A digest, as the tool for it prints it."""
    source, result = given.name, "checksum.txt"
    digest = hashlib.sha256(given.text.encode()).hexdigest()
    asked = given.chance.choice(
        (
            f"Save the SHA-256 checksum of `{given.name}` to `{result}`, in the format that sha256sum prints.",
            f"`{result}` must hold the SHA-256 checksum of `{given.name}`, as a line of sha256sum.",
        )
    )
    verifier = (
        _HEAD
        + f"""

def test_the_checksum_is_that_of_the_file():
    words = Path(__RESULT__).read_text(encoding="utf-8").split()
    assert words[0] == {digest!r}
    assert words[1].lstrip("*").endswith(__BASE__)
    assert len(words) == 2
"""
    )
    base = PurePosixPath(given.name).name
    return FileTask(
        asked,
        (f"sha256sum {source} > {result}",),
        (variant("with_the_whole_path", f"sha256sum {given.path(given.name)} > {result}"),),
        (
            variant("of_another_kind", f"md5sum {source} > {result}"),
            variant("of_the_name", f"echo {source} | sha256sum > {result}"),
        ),
        filled(verifier, result=given.path(result), base=base),
    )


def named_files(given: Material) -> FileTask | None:
    """Files of one kind in a folder."""
    suffix = PurePosixPath(given.name).suffix
    names = sorted(name for name in given.neighbours if name.endswith(suffix))
    others = [name for name in given.neighbours if name not in names]
    if not suffix or len(names) < 2 or not others:
        return None
    folder, result = given.folder, "files.txt"
    where = f"in the folder `{folder}`" if folder else "at the top of the repository (not in its folders)"
    listed = [f"{folder}/{name}".lstrip("/") for name in names]
    here = f"{folder}/" if folder else ""
    asked = given.chance.choice(
        (
            f"List the files {where} whose names end in `{suffix}`, one path a line, like `{listed[0]}`, in "
            f"`{result}`.",
            f"Which files {where} have names that end in `{suffix}`? Write their paths, such as `{listed[0]}`, to "
            f"`{result}`, each on a line of its own.",
        )
    )
    verifier = (
        _HEAD
        + """

def test_every_file_is_listed_once():
    assert sorted(Path(__RESULT__).read_text(encoding="utf-8").splitlines()) == __LISTED__
"""
    )
    found = f"find {folder or '*'} -maxdepth {1 if folder else 0} -type f -name '*{suffix}'"
    return FileTask(
        asked,
        (f"ls -d {here}*{suffix} > {result}",),
        (variant("found", f"{found} > {result}"),),
        (
            variant("all_files", f"ls -d {here}* > {result}"),
            variant("first_only", f"echo {listed[0]} > {result}"),
        ),
        filled(verifier, result=given.path(result), listed=listed),
    )


def renamed_file(given: Material) -> FileTask | None:
    """A file with another name."""
    old = PurePosixPath(given.name)
    new = str(old.with_name(f"{given.chance.choice(('old', 'first', 'kept'))}-{old.name}"))
    asked = given.chance.choice(
        (
            f"Rename the file `{given.name}` to `{new}`.",
            f"`{given.name}` needs another name: `{new}`. What is in it stays the same.",
        )
    )
    verifier = (
        _HEAD
        + f"""import hashlib


def test_the_text_has_the_new_name():
    assert hashlib.sha256(Path(__NEW__).read_bytes()).hexdigest() == {hashlib.sha256(given.text.encode()).hexdigest()!r}


def test_the_old_name_is_gone():
    assert not Path(__OLD__).exists()
"""
    )
    one, two = given.name, new
    return FileTask(
        asked,
        (f"mv {one} {two}",),
        (variant("copied_and_removed", f"cp {one} {two}", f"rm {one}"),),
        (
            variant("copied", f"cp {one} {two}"),
            variant("emptied", f"rm {one}", f"touch {two}"),
        ),
        filled(verifier, new=given.path(new), old=given.path(given.name)),
    )


def file_mode(given: Material) -> FileTask | None:
    """Permissions."""
    mode, said = given.chance.choice(
        (
            ("600", "only its owner may read and write it, and nobody may execute it"),
            ("640", "its owner may read and write it, its group may only read it, others may do nothing"),
            ("750", "its owner may do all, its group may read and execute it, others may do nothing"),
            ("444", "everybody may read it, nobody may write or execute it"),
        )
    )
    source = given.name
    asked = given.chance.choice(
        (
            f"Set the permissions of `{given.name}` to {mode}: {said}.",
            f"Change who may do what with `{given.name}` so that {said} (mode {mode}).",
        )
    )
    verifier = (
        _HEAD
        + f"""

def test_the_mode_is_set():
    assert oct(Path(__SOURCE__).stat().st_mode & 0o7777) == {oct(int(mode, 8))!r}


def test_the_text_is_as_it_was():
    assert len(Path(__SOURCE__).read_bytes()) == {len(given.text)}
"""
    )
    letters = {"600": "u=rw,go=", "640": "u=rw,g=r,o=", "750": "u=rwx,g=rx,o=", "444": "a=r"}[mode]
    return FileTask(
        asked,
        (f"chmod {mode} {source}",),
        (variant("by_letters", f"chmod {letters} {source}"),),
        (
            variant("for_all", f"chmod 777 {source}"),
            variant("other_bits", f"chmod {'644' if mode != '444' else '400'} {source}"),
        ),
        filled(verifier, source=given.path(given.name)),
    )


def new_folder(given: Material) -> FileTask | None:
    """A folder with a copy and a note in it."""
    base = PurePosixPath(given.name).name
    folder, note = given.chance.choice((("review", "todo"), ("handout", "read-first"), ("archive", "why")))
    line = f"see {base}"
    asked = given.chance.choice(
        (
            f"Make a folder `{folder}` that holds a copy of `{given.name}`, still named `{base}`, and a file "
            f"`{note}.txt` with the single line `{line}`.",
            f"Create the folder `{folder}`. Into it go a copy of `{given.name}` with its name, `{base}`, and a text "
            f"file `{note}.txt` whose only line is `{line}`.",
        )
    )
    verifier = (
        _HEAD
        + f"""import hashlib


def test_the_copy_is_in_the_folder():
    copied = Path(__FOLDER__, __BASE__).read_bytes()
    assert hashlib.sha256(copied).hexdigest() == {hashlib.sha256(given.text.encode()).hexdigest()!r}


def test_the_note_is_in_the_folder():
    assert Path(__FOLDER__, __NOTE__).read_text(encoding="utf-8").splitlines() == [__LINE__]


def test_the_original_is_still_there():
    assert len(Path(__SOURCE__).read_bytes()) == {len(given.text)}
"""
    )
    source, quoted = given.name, f"'{line}'"
    return FileTask(
        asked,
        (f"mkdir {folder}", f"cp {source} {folder}/", f"echo {quoted} > {folder}/{note}.txt"),
        (
            variant(
                "printed", f"mkdir -p {folder} && cp {source} {folder} && printf '%s\\n' {quoted} > {folder}/{note}.txt"
            ),
        ),
        (
            variant("no_note", f"mkdir {folder}", f"cp {source} {folder}/"),
            variant("moved", f"mkdir {folder}", f"echo {quoted} > {folder}/{note}.txt", f"mv {source} {folder}/"),
        ),
        filled(
            verifier, folder=given.path(folder), base=base, note=f"{note}.txt", line=line, source=given.path(given.name)
        ),
    )


FAMILIES: tuple[Family, ...] = (checksum, named_files, renamed_file, file_mode, new_folder)
