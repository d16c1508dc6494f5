"""What an overlay's upper directory says: the changes that were made, copies of it, one laid over another.

In an upper directory a character device 0:0 stands for a deleted name, and a directory marked opaque hides the one
below it (Linux, Documentation/filesystems/overlayfs). Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple, TypedDict

OPAQUE = "trusted.overlay.opaque"
NEVER = frozenset({"/proc", "/sys", "/dev", "/run"})


class Change(TypedDict):
    """The fields of sandbox.types.FileChange."""

    path: str
    kind: str
    type: str
    sha256: str | None
    size: int
    mode: int


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry stands for a deleted name."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(path: str) -> bool:
    """Whether a directory of an upper directory hides the one below it."""
    try:
        return os.getxattr(path, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def changes(upper: str, pristine: str) -> list[Change]:
    """What `upper` holds that differs in content, mode or type from `pristine`, sorted by path.

    Nothing may change in `upper` meanwhile: a folder that becomes a symlink would lead out of it.
    """
    found: list[Change] = []
    # A sandbox makes trees deeper than Python's stack.
    pending = [_Folder("", True)]
    while pending:
        pending += _look(upper, pristine, pending.pop(), found)
    return sorted(found, key=lambda change: change["path"])


class _Folder(NamedTuple):
    """A directory of an upper directory."""

    path: str
    before: bool
    """Whether it was a directory before. Where it was a symlink nothing was below it, wherever that may lead."""


def _look(upper: str, pristine: str, folder: _Folder, found: list[Change]) -> list[_Folder]:
    """Compare what one directory holds; the directories in it."""
    folders = []
    seen = set()
    with os.scandir(upper + folder.path) as entries:
        for entry in entries:
            seen.add(entry.name)
            path = f"{folder.path}/{entry.name}"
            if path in NEVER:
                continue
            before = _status(pristine + path) if folder.before else None
            now = os.lstat(upper + path)
            _compare(upper, pristine, path, now, before, found)
            if stat.S_ISDIR(now.st_mode):
                folders.append(_Folder(path, _type(before) == "directory"))
    if folder.before and is_opaque(upper + folder.path):
        for name in os.listdir(pristine + folder.path):
            if name not in seen:
                path = f"{folder.path}/{name}"
                found.append(_deleted(path, os.lstat(pristine + path)))
    return folders


def _compare(
    upper: str, pristine: str, path: str, now: os.stat_result, before: os.stat_result | None, found: list[Change]
) -> None:
    if is_whiteout(now):
        if before is not None:
            found.append(_deleted(path, before))
        return
    content = _content(upper + path, now)
    same_kind = before is not None and _type(before) == _type(now) and _mode(before) == _mode(now)
    if not (same_kind and content == _content(pristine + path, before)):
        found.append(_changed(path, now, before, content))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _type(status: os.stat_result | None) -> str:
    if status is None:
        return ""
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    return kinds.get(stat.S_IFMT(status.st_mode), "other")


def _mode(status: os.stat_result | None) -> int:
    return 0 if status is None else stat.S_IMODE(status.st_mode)


def _content(path: str, status: os.stat_result | None) -> str | None:
    """Hash of a regular file or of a symlink's target."""
    if _type(status) == "symlink":
        return hashlib.sha256(os.readlink(os.fsencode(path))).hexdigest()
    if _type(status) != "file":
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _name(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


def _changed(path: str, now: os.stat_result, before: os.stat_result | None, content: str | None) -> Change:
    kind = "added" if before is None else "modified"
    size = now.st_size if _type(now) == "file" else 0
    return Change(path=_name(path), kind=kind, type=_type(now), sha256=content, size=size, mode=_mode(now))


def _deleted(path: str, before: os.stat_result) -> Change:
    return Change(path=_name(path), kind="deleted", type=_type(before), sha256=None, size=0, mode=0)


def copy(source: str, target: str) -> None:
    """Copy an upper directory to `target`, which may not exist yet, with everything that it means. Raises OSError."""
    _run("copying the changes of a sandbox", ["cp", "-a", "--", source, target])


def apply(source: str, target: str) -> None:
    """Lay the upper directory `source` over `target`, as mounting both would; `source` is used up. Raises OSError.

    Both are on one file system: what is moved keeps its hard links.
    """
    pending = [(source, target)]
    while pending:
        new, old = pending.pop()
        pending += _lay_folder(new, old)
        _copy_attributes(new, old)
    remove_tree(Path(source))


def _lay_folder(source: str, target: str) -> list[tuple[str, str]]:
    """Move what one directory holds into another; the directories that are in both."""
    both = []
    for name in os.listdir(source):
        new, old = f"{source}/{name}", f"{target}/{name}"
        before = _status(old)
        is_folder = stat.S_ISDIR(os.lstat(new).st_mode)
        if is_folder and before is not None and stat.S_ISDIR(before.st_mode) and not is_opaque(new):
            both.append((new, old))
            continue
        _remove(old, before)
        os.rename(new, old)
        if is_folder and before is not None:
            # Whatever stood there hid what is below it, and the new directory has to go on hiding it.
            os.setxattr(old, OPAQUE, b"y")
    return both


def _copy_attributes(source: str, target: str) -> None:
    status = os.lstat(source)
    os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source):
        value = os.getxattr(source, name)
        # What a sandbox may hang on a file in memory can be more than a disk takes, as it is for `cp`.
        with contextlib.suppress(OSError) if name.startswith("user.") else contextlib.nullcontext():
            os.setxattr(target, name, value)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _remove(path: str, status: os.stat_result | None) -> None:
    if status is None:
        return
    if stat.S_ISDIR(status.st_mode):
        remove_tree(Path(path))
    else:
        os.unlink(path)


def remove_tree(path: Path) -> None:
    """Remove a directory; nothing when it is gone. Raises OSError."""
    # A sandbox makes trees deeper than Python's stack, with paths longer than the system takes in one call.
    _run("removing a directory of a sandbox", ["rm", "-rf", "--", str(path)])


def _run(what: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise OSError(f"{what}: {done.stderr.strip()[-500:]}")
