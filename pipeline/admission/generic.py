"""Solutions that every task has, made from what its oracle left: weak ones, and the right one by another hand.

A weak one is derived only where it differs from the oracle's and from doing nothing. Of tasks that are judged live only
`touched` is made: a service that has read its files does not notice when they change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pipeline.admission.outputs import Outputs
from pipeline.types import TaskInstance
from sandbox.types import FileChange

MAX_REWRITTEN = 20
BEYOND_CONTENT = re.compile(
    r"\b(?:chown|chgrp|setfacl|setfattr|setcap|touch|mkfifo|mknod|ln|su|sudo|useradd|adduser|install|crontab|link)\b"
    r"|st_uid|st_gid|st_nlink|st_ino|st_mtime|getmtime|getpwuid|owner|xattr|/run/|/dev/"
)
"""Words by which a solution or a verifier is about more than contents and modes of files."""
EMPTY_PROGRAMS = {".py": b"import sys\n\nsys.exit(0)\n", ".js": b"process.exit(0);\n", ".sh": b"#!/bin/sh\nexit 0\n"}


@dataclass(frozen=True)
class Made:
    """Files in place of those that the oracle left, or of those of an untouched sandbox."""

    name: str
    files: Mapping[str, bytes]
    untouched: bool = False
    """Over an untouched sandbox instead of over what the oracle left."""
    modes: Mapping[str, int] = field(default_factory=dict)


def weak_files(outputs: Outputs, before: Mapping[str, bytes], inputs: Mapping[str, bytes], *, live: bool) -> list[Made]:
    """Weak solutions; `before` are the named files of an untouched sandbox, `inputs` those that stay as they are."""
    # Of a file whose mode alone was asked for, the content proves nothing.
    named = {
        one.path: outputs.contents[one.path]
        for one in outputs.named
        if before.get(one.path) != outputs.contents[one.path]
    }
    if not named:
        return []
    modes = {one.path: one.mode for one in outputs.named}
    absent = {path: b"" for path in named if path not in before}
    made = [Made("touched", absent, untouched=True, modes=modes)] if absent else []
    if live:
        return made
    contents: dict[str, dict[str, bytes]] = {
        "empty": dict.fromkeys(named, b""),
        "constant_number": dict.fromkeys(named, b"0\n"),
        "constant_word": dict.fromkeys(named, b"ok\n"),
        "truncated": {path: content[: len(content) // 2] for path, content in named.items()},
    }
    if inputs:
        contents["input_copied"] = dict.fromkeys(named, inputs[min(inputs)])
    if old := {path: before[path] for path in named if path in before}:
        contents["previous_state"] = old
    if programs := _doing_nothing([one for one in outputs.named if one.path in named]):
        contents["does_nothing"] = programs
    if len(absent) > 1:
        contents |= {f"empty_{PurePosixPath(path).name}": {path: b""} for path in sorted(absent)}
    known: list[Mapping[str, bytes]] = [named]
    others = len(outputs.changes) > len(named)
    for name, files in contents.items():
        whole = {**named, **files}
        as_before = not others and whole == {**dict.fromkeys(named, None), **before}
        if whole not in known and not as_before:
            known.append(whole)
            made.append(Made(name, files, modes=modes))
    return made


def _doing_nothing(named: Sequence[FileChange]) -> dict[str, bytes]:
    """Programs that end well at once, when all that is asked for are programs."""
    found: dict[str, bytes] = {}
    for one in named:
        text = EMPTY_PROGRAMS.get(PurePosixPath(one.path).suffix, EMPTY_PROGRAMS[".sh"] if one.mode & 0o111 else None)
        if text is None:
            return {}
        found[one.path] = text
    return found


def rewritten(instance: TaskInstance, outputs: Outputs) -> Made | None:
    """The oracle's files written into an untouched sandbox; None where it is not certain that this solves the task.

    It is where nothing but regular files without a right to be executed was added or changed, with folders for them of
    the usual mode, and neither solution nor verifier is about owners, times, links or places that no change shows.
    """
    text = "\n".join([*instance.solution, *instance.verifier.texts.values()])
    if instance.state_scope == "live" or BEYOND_CONTENT.search(text):
        return None
    files = [one for one in outputs.changes if one.type == "file"]
    folders = {str(folder) for one in files for folder in PurePosixPath(one.path).parents}
    for change in outputs.changes:
        plain = change.type == "file" and change.kind != "deleted" and not change.mode & 0o7111
        parent = change.type == "directory" and change.kind == "added" and change.mode == 0o755
        if not (plain and change.path in outputs.contents) and not (parent and change.path in folders):
            return None
    if not files or len(files) > MAX_REWRITTEN or any("\ufffd" in one.path for one in files):
        return None
    contents = {one.path: outputs.contents[one.path] for one in files}
    return Made("rewritten", contents, untouched=True, modes={one.path: one.mode for one in files})
