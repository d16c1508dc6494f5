"""Tasks about files: each family on a small folder, its solutions and wrong ones run in a real shell."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.generators.file_tasks import FAMILIES, Files, FilesConfig, _is_text, _neighbours, _texts
from pipeline.generators.file_texts import FileTask, Material
from pipeline.generators.protocol import Candidate, GeneratorInput
from pipeline.types import Repository
from sandbox.protocol import Sandbox
from tests.unit.recorded_clients import RecordedSandbox, answer

README = "# Walker\n\n" + "".join(f"{number}: it counts every word twice, and words again\n" for number in range(20))
OTHER = "".join(f"{number} another text without much\n" for number in range(14))
FILES = {"docs/walker.md": README, "docs/other.md": OTHER, "docs/run.sh": "#!/bin/sh\necho walker\n"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    _laid(folder)
    return folder


def _laid(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _task(family: str, folder: Path, seed: int = 1) -> FileTask:
    beside = {Path(name).name: text.encode() for name, text in FILES.items()}
    made = FAMILIES[family](
        Material(workdir=str(folder), name="docs/walker.md", text=README, neighbours=beside, chance=random.Random(seed))
    )
    assert made is not None
    return made


def _run(commands: tuple[str, ...], folder: Path) -> None:
    subprocess.run(["bash", "-e", "-c", "\n".join(commands)], cwd=folder, check=True, timeout=20)


def _holds(verifier: str) -> bool:
    room: dict[str, Any] = {}
    exec(compile(verifier, "test_state.py", "exec"), room)
    try:
        for name, test in room.items():
            if name.startswith("test_"):
                test()
    except (AssertionError, OSError, IndexError):
        return False
    return True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_verifier_takes_right_solutions_and_no_other(family: str, seed: int, repository: Path) -> None:
    task = _task(family, repository, seed)
    assert not _holds(task.verifier)
    for commands in (task.solution, *(one.commands for one in task.right)):
        _laid(repository)
        _run(commands, repository)
        assert _holds(task.verifier), commands
    for one in task.weak:
        _laid(repository)
        _run(one.commands, repository)
        assert not _holds(task.verifier), one.name


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_same_chance_gives_the_same_task(family: str, repository: Path) -> None:
    assert _task(family, repository, 5) == _task(family, repository, 5)


def test_a_result_that_breaks_the_source_is_not_taken(repository: Path) -> None:
    task = _task("replaced_word", repository)
    _run((*task.solution, "echo more >> docs/walker.md"), repository)
    assert not _holds(task.verifier)


def test_only_plain_texts_of_some_lines_are_asked_about() -> None:
    assert _is_text(b"a line\n" * 12)
    assert not _is_text(b"a line\n" * 11)
    assert not _is_text(b"a line\r\n" * 20)
    assert not _is_text(b"a line\n" * 20 + b"no end")
    assert not _is_text(("zwölf\n" * 20).encode())
    assert not _is_text(b"\x1b[31m red\n" * 20)


class _Tree:
    """The names, sizes and bytes of a stored tree."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.sizes = {name: len(content) for name, content in files.items()}

    def load(self, names: set[str]) -> None:
        assert names <= self._files.keys()

    def read(self, name: str) -> bytes:
        return self._files[name]


def test_files_that_a_shell_would_read_otherwise_are_left_alone() -> None:
    text = b"some words of a text\n" * 20
    names = (
        "a.txt",
        "-rf.txt",
        "with blank.txt",
        "$HOME.txt",
        "vendor/a.txt",
        "x.min.js",
        "b;c.txt",
        ".hidden",
        "é.md",
    )
    tree: Any = _Tree(dict.fromkeys(names, text))
    assert _texts(tree, frozenset(names)) == ["a.txt"]


def test_a_file_that_the_image_lacks_is_not_asked_about() -> None:
    tree: Any = _Tree({"a.txt": b"some words of a text\n" * 20})
    assert _texts(tree, frozenset()) == []


def test_a_folder_that_the_image_added_to_is_not_asked_about() -> None:
    tree: Any = _Tree({"docs/a.txt": b"a\n", "docs/b.txt": b"b\n", "docs/.keep": b""})
    there = frozenset({"docs/a.txt", "docs/b.txt", "docs/.keep"})
    assert _neighbours(tree, there, "docs/a.txt") == {"a.txt": b"a\n", "b.txt": b"b\n"}
    assert _neighbours(tree, there | {"docs/built.o"}, "docs/a.txt") == {}


def _made(folder: Path, files: int, max_tasks: int, others: tuple[str, ...] = ()) -> list[Candidate]:
    """Tasks about a repository of so many texts, and others with these names."""
    texts = {f"docs/part{number}.md": README.replace("it", f"it{number}") for number in range(files)}
    texts |= {f"docs/{name}": README for name in others}
    with tarfile.open(folder / "tree.tar", "w") as tar:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    seen = "".join(f"{line}\n" for line in ("workdir\t/work", *(f"file\t{name}" for name in texts)))

    def start() -> Sandbox:
        return RecordedSandbox([answer(0)], {"survey.txt": seen.encode()})

    repository = Repository(source="local", full_name="tests/walker", commit="1", language="html", locator=".")
    given = GeneratorInput(repository=repository, tree=folder / "tree.tar", image_digest="sha256:0")
    return list(Files(FilesConfig(max_tasks=max_tasks)).instances(given, start))


def _families(made: list[Candidate]) -> list[str]:
    return [one.instance.family for one in made if one.instance]


def test_more_tasks_than_families_go_round_them_again_about_other_files(tmp_path: Path) -> None:
    made = _made(tmp_path, 40, 30)
    families = _families(made)
    assert len(families) == len({one.document for one in made}) == 30
    fit = len(set(families))
    assert families[:fit] == families[fit : 2 * fit]


def test_fewer_tasks_are_the_first_of_more(tmp_path: Path) -> None:
    more = _made(tmp_path, 40, 30)
    for max_tasks in (1, 2, 5):
        assert _made(tmp_path, 40, max_tasks) == more[:max_tasks]


def test_up_to_the_number_of_families_none_is_used_twice(tmp_path: Path) -> None:
    made = _made(tmp_path, 40, len(FAMILIES))
    families = _families(made)
    # The folder is too large for those that take it as a whole.
    assert len(set(families)) == len(families) == len(FAMILIES) - 2
    assert [one.failure_class for one in made if not one.instance] == ["no_text_file"]


def test_where_files_are_few_each_gets_a_task_of_every_family_and_none_twice(tmp_path: Path) -> None:
    made = [one for one in _made(tmp_path, 2, 60) if one.instance]
    found = [(one.document, one.instance.family) for one in made if one.instance]
    assert len({one.document for one in made[:2]}) == 2, "files without a task come first"
    assert len(set(found)) == len(found) > len(FAMILIES)
    assert {document for document, _ in found} == {"docs/part0.md", "docs/part1.md"}


def test_what_is_asked_about_a_whole_folder_is_asked_once(tmp_path: Path) -> None:
    made = [one.instance for one in _made(tmp_path, 6, 60, others=("notes.txt", "more.txt")) if one.instance]
    assert len([one for one in made if one.family == "named_files"]) == 2, "one of each kind of file"
    assert len({one.solution for one in made}) == len(made)


def test_up_to_the_number_of_families_no_file_has_two_tasks(tmp_path: Path) -> None:
    made = _made(tmp_path, 5, len(FAMILIES))
    assert len(_families(made)) == 5
    assert made[-1].failure_class == "no_text_file"


def test_tasks_of_the_default_keep_their_ids(tmp_path: Path) -> None:
    # Other ids would have everything attempted again.
    ids = [one.instance.instance_id for one in _made(tmp_path, 40, FilesConfig().max_tasks) if one.instance]
    assert ids == ["task-9f90221b601fffec", "task-4ec29b6a4bf94111"]
