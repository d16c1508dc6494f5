"""What the reference solution changed, and which files an instruction names: what gates derive from and look for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from sandbox.protocol import Sandbox
from sandbox.types import FileChange

MAX_FILES = 20
MAX_BYTES = 1 << 20
MAX_NAMED = 5
PATH = re.compile(r"(?<![\w./~-])/?[\w.+@%,=-]+(?:/[\w.+@%,=-]+)*/?")
QUOTED = re.compile(r"[`\"']([^`\"'\n]{1,200})[`\"']")


@dataclass(frozen=True)
class Outputs:
    """What was changed."""

    changes: tuple[FileChange, ...]
    contents: Mapping[str, bytes]
    """Of regular files of at most MAX_BYTES, MAX_FILES of them at most."""
    named: tuple[FileChange, ...]
    """Regular files among `contents` that the instruction names and does not give word for word, MAX_NAMED at most."""

    @property
    def answers(self) -> tuple[FileChange, ...]:
        """The files that are asked for: those that are named; all that are known where none is."""
        return self.named or tuple(change for change in self.changes if change.path in self.contents)


def outputs_of(sandbox: Sandbox, instruction: str, workdir: str) -> Outputs:
    """What differs now from the image. Raises SandboxUnavailable."""
    changes = tuple(sandbox.changes())
    named = named_paths(instruction, workdir)
    files = [one for one in changes if one.type == "file" and one.kind != "deleted" and one.size <= MAX_BYTES]
    files.sort(key=lambda one: (one.path not in named, one.path))
    contents: dict[str, bytes] = {}
    for change in files[:MAX_FILES]:
        try:
            content = sandbox.get(change.path, max_bytes=MAX_BYTES)
        except ValueError:
            continue
        if content is not None:
            contents[change.path] = content
    chosen = [one for one in files if one.path in named and one.path in contents]
    # What the instruction tells to begin with, with its whole text, is no result, unless there is no other one.
    results = [one for one in chosen if not _is_given(contents[one.path], instruction)]
    return Outputs(changes, contents, tuple(results or chosen)[:MAX_NAMED])


def _is_given(content: bytes, instruction: str) -> bool:
    """Whether a text of several lines stands in the instruction, however it is indented there."""
    text = content.decode("utf-8", "replace").strip()
    return "\n" in text and " ".join(text.split()) in " ".join(instruction.split())


def named_paths(instruction: str, workdir: str) -> set[str]:
    """Absolute paths of what an instruction names, absolutely or from the working directory.

    A single word without a dot counts only where it is quoted.
    """
    words = {word.rstrip(".,;:") for word in PATH.findall(instruction)}
    words = {word for word in words if "/" in word or "." in word}
    words |= {word for quoted in QUOTED.findall(instruction) for word in quoted.split()}
    base = PurePosixPath(workdir)
    return {_plain(base / word) for word in words if word and word != "/"}


def _plain(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/" + "/".join(parts)
