"""Tasks about files: each family on a small folder, its solutions and wrong ones run in a real shell."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.generators.file_tasks import FAMILIES, _is_text, _neighbours, _texts
from pipeline.generators.file_texts import FileTask, Material

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
