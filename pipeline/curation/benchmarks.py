"""Reads the tasks of benchmarks that training data must not hold, from their folders: Harbor's and Terminal-Bench's.

Only what decontamination compares is read. Importing such folders as tasks is sources/task_folders.py's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from pipeline.errors import ConfigurationError
from pipeline.types import Record

_MARKS = ("task.toml", "task.yaml")
_SOLUTIONS = ("solution.sh", "solution.yaml")
"""Where Terminal-Bench 1 keeps them; Harbor has a folder."""
_MAX_BYTES = 1 << 20
_CODE = {".py", ".sh", ".js", ".ts", ".go", ".rs", ".c", ".cpp", ".java", ".php", ".txt", ".md"}


class BenchmarkTask(Record):
    """One held-out task."""

    name: str
    """Name of its folder."""
    instruction: str
    tests: str
    """Text of its tests, one file after the other."""
    solution: str = ""
    """Text of its reference solution; empty where there is none."""


def read_benchmarks(paths: Iterable[Path]) -> list[BenchmarkTask]:
    """All tasks at or below the paths, sorted by name.

    Raises ConfigurationError that names a path that is no folder or holds no task, or a task that cannot be read.
    """
    found: list[BenchmarkTask] = []
    for path in paths:
        if not path.is_dir():
            raise ConfigurationError(f"benchmarks: {path} is no folder; give the folder of one task or of many")
        tasks = [_read(folder) for folder in _folders(path)]
        if not tasks:
            raise ConfigurationError(f"benchmarks: no task.toml and no task.yaml at or below {path}")
        found += tasks
    return sorted(found, key=lambda task: (task.name, task.instruction))


def fingerprint(tasks: Iterable[BenchmarkTask]) -> str:
    """Names a set of held-out tasks by their content."""
    text = json.dumps([task.model_dump() for task in tasks], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _folders(path: Path) -> Iterator[Path]:
    if any((path / mark).is_file() for mark in _MARKS):
        yield path
        return
    for below in sorted(path.iterdir()):
        if below.is_dir() and not below.is_symlink():
            yield from _folders(below)


def _read(folder: Path) -> BenchmarkTask:
    solution = [folder / name for name in _SOLUTIONS if (folder / name).is_file()]
    return BenchmarkTask(
        name=folder.name,
        instruction=_instruction(folder),
        tests=_texts(_code_below(folder / "tests")),
        solution=_texts([*solution, *_code_below(folder / "solution")]),
    )


def _code_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in _CODE)


def _texts(paths: Iterable[Path]) -> str:
    return "\n".join(_text(path) for path in paths)


def _instruction(folder: Path) -> str:
    if (folder / "instruction.md").is_file():
        return _text(folder / "instruction.md")
    try:
        described = yaml.safe_load(_text(folder / "task.yaml"))
        instruction = described["instruction"]
    except (yaml.YAMLError, RecursionError, KeyError, TypeError) as error:
        raise ConfigurationError(f"benchmarks: {folder} has no instruction that can be read: {error}") from error
    return str(instruction)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigurationError(f"benchmarks: {path} cannot be read: {error.strerror}") from error
