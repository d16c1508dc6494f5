"""Files of a sandbox, opened from outside of it: nothing that the sandbox made leads anywhere else.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import PurePosixPath

from sandbox.overlay.syscalls import open_in_root


def reading(root: int, path: str) -> int:
    """A descriptor of a regular file. Raises FileNotFoundError when there is none; a symlink at the end is none."""
    # Opened by name only first: opening a pipe or a device would wait or do something.
    found = open_in_root(root, path, os.O_PATH | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise FileNotFoundError(f"{path} is no regular file")
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY)
    finally:
        os.close(found)


def writing(root: int, path: str, mode: int) -> int:
    """A descriptor of a new, empty file that replaces whatever is at `path`; parents are made. Raises OSError."""
    folder = _folder(root, str(PurePosixPath(path).parent))
    name = PurePosixPath(path).name
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
        os.fchmod(made, mode)
        return made
    finally:
        os.close(folder)


def _folder(root: int, path: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return open_in_root(root, path, os.O_RDONLY | os.O_DIRECTORY)
    parent = _folder(root, str(PurePosixPath(path).parent))
    try:
        os.mkdir(PurePosixPath(path).name, 0o755, dir_fd=parent)
    finally:
        os.close(parent)
    return open_in_root(root, path, os.O_RDONLY | os.O_DIRECTORY)
