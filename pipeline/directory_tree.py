"""Reads a directory of this machine into `Member`s (pipeline/checkout.py). Symlinks are read, never followed."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.checkout import HISTORY, Member, printable
from pipeline.errors import ItemRejected


def walk(root: Path) -> Iterator[Member]:
    """Every path below a directory, lazily, so that a consumer can stop at its limits. History folders are left out.

    Raises ItemRejected (unreadable, special_file). No symlink is followed.
    """
    pending = deque([""])
    while pending:
        folder = pending.popleft()
        try:
            with os.scandir(root / folder) as scan:
                entries = [(entry.name, entry.stat(follow_symlinks=False)) for entry in _bounded(scan)]
        except OSError as error:
            raise ItemRejected("unreadable", f"{printable(folder) or 'the directory'}: {error.strerror}") from error
        for name, status in entries:
            if name in HISTORY:
                continue
            path = f"{folder}/{name}" if folder else name
            yield member_on_disk(root, path, status)
            if stat.S_ISDIR(status.st_mode):
                pending.append(path)


def member_on_disk(root: Path, name: str, status: os.stat_result) -> Member:
    """One path below `root` as a Member. Raises ItemRejected (special_file, unreadable)."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return Member(name, "directory")
    if stat.S_ISLNK(mode):
        try:
            return Member(name, "symlink", target=os.readlink(root / name))
        except OSError as error:
            raise ItemRejected("unreadable", f"{printable(name)}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise ItemRejected("special_file", f"{printable(name)} is a device, a pipe or a socket")
    return Member(
        name,
        "file",
        size=status.st_size,
        executable=bool(mode & 0o111),
        read=lambda: _read_regular(root / name, name, status.st_size),
    )


def _bounded(scan: Iterable[os.DirEntry[str]], limit: int = 100_000) -> Iterator[os.DirEntry[str]]:
    """One directory of millions of files must not fill the memory before a limit is looked at."""
    for index, entry in enumerate(scan):
        if index >= limit:
            raise ItemRejected("too_many_files", f"one directory has more than {limit:,} entries")
        yield entry


def _read_regular(path: Path, name: str, size: int) -> bytes:
    """At most `size` + 1 bytes, so that a file that grew is noticed and not read without end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ItemRejected("unreadable", f"{printable(name)} changed while it was read")
            return file.read(size + 1)
    except OSError as error:
        raise ItemRejected("unreadable", f"{printable(name)}: {error.strerror}") from error
