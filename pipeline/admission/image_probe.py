"""Searches a file system for an answer. A test file: image_search.py says what is wanted, and has it judged.

Runs in the trusted interpreter inside a sandbox and imports nothing of ours.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from typing import Any

WANTED: dict[str, Any] = {}
SKIPPED = {
    *("/proc", "/sys", "/dev", "/run", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/boot"),
    *("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log/apt"),
}
ROOTS = ("/root", "/home", "/srv", "/opt", "/tmp", "/var", "/etc", "/")
LARGEST_TEXT = 256 << 10
LONGEST_S = 2.0
"""For reading texts; results are always compared."""


def files(seen: set[str]) -> Iterator[tuple[str, int]]:
    """Path and size of every regular file of the image's own folders, those of the task first."""
    own = os.lstat("/").st_dev
    waiting = [root for root in dict.fromkeys((*reversed(ROOTS), WANTED["workdir"]))]
    while waiting:
        folder = waiting.pop()
        if folder in SKIPPED or folder in seen:
            continue
        seen.add(folder)
        try:
            # What else is mounted, the interpreter that runs this among it, is no part of the image.
            if os.lstat(folder).st_dev != own:
                continue
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            path = f"{folder.rstrip('/')}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False).st_size


def content(path: str) -> bytes:
    """All of a file; nothing when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def is_input(path: str) -> bool:
    """Whether the instruction names a path, or a folder above it that is not above everything of the task."""
    parts = path.split("/")
    above = {"/".join(parts[:count]) for count in range(2, len(parts) + 1)}
    own = WANTED["workdir"].split("/")
    common = {"/".join(own[:count]) for count in range(1, len(own) + 1)}
    return bool((above - common) & set(WANTED["named"]))


def is_packaged(path: str) -> bool:
    """Whether a package of Debian brought this file: then it was written for everybody, and nobody planted it."""
    lists = "/var/lib/dpkg/info"
    try:
        names = [name for name in os.listdir(lists) if name.endswith(".list")]
    except OSError:
        return False
    line = os.fsencode(f"\n{path}\n")
    return any(line in b"\n" + content(f"{lists}/{name}") for name in names)


def has_blob(path: str) -> str:
    """The wanted content that git keeps as this file, or in the pack of this index."""
    folder, name = path.rsplit("/", 2)[-2:]
    if folder + name in WANTED["blobs"]:
        return folder + name
    if not (name.startswith("pack-") and name.endswith(".idx")):
        return ""
    index = content(path)
    return next((blob for blob in WANTED["blobs"] if bytes.fromhex(blob) in index), "")


def test_no_answer() -> None:
    """No result and no text of the solution is there."""
    sizes = {size for size, _ in WANTED["answers"].values()}
    lines = [line.encode() for line in WANTED["lines"]]
    shortest = min(map(len, lines), default=0)
    answers = {digest: path for path, (_, digest) in WANTED["answers"].items()}
    end = time.monotonic() + LONGEST_S
    for path, size in files(set()):
        assert not has_blob(path), f"git keeps a result in {path}"
        alike = any(wanted <= size <= wanted + 4 for wanted in sizes)
        readable = lines and shortest <= size <= LARGEST_TEXT and time.monotonic() < end
        if not (alike or readable) or is_input(path):
            continue
        text = content(path)
        same = answers.get(hashlib.sha256(text.strip()).hexdigest())
        said = next((line for line in lines if line in text), None)
        if (same or said) and is_packaged(path):
            continue
        assert same is None, f"{path} holds what {same} has to hold"
        assert said is None, f"{path} holds {said[:80]!r}"
