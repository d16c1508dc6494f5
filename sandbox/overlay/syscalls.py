"""The few system calls that Python has no name for. Standard library only: the keeper runs without our packages."""

from __future__ import annotations

import ctypes
import errno
import os

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_OPENAT2 = 437
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x01, 0x02, 0x10
_MNT_DETACH = 2
NOSUID, NODEV, REMOUNT = 2, 4, 32
_MS_RDONLY = 1


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def mount(kind: str, target: str, options: str, flags: int = 0) -> None:
    """Mount a file system of type `kind`. Raises OSError."""
    if _libc.mount(kind.encode(), os.fsencode(target), kind.encode(), flags, os.fsencode(options)):
        raise _error(f"mounting {kind} at {target}")


def mount_overlay(target: str, lower: list[str], upper: str = "", work: str = "") -> None:
    """Mount an overlay, read-only without an upper directory. Directories are named top first. Raises OSError.

    Renamed folders and changed attributes are stored in full, so that the upper directory means the same over a copy
    of its lower directories.
    """
    options = f"lowerdir={':'.join(lower)},index=off,metacopy=off,redirect_dir=off,xino=off"
    if upper:
        mount("overlay", target, f"{options},upperdir={upper},workdir={work}")
    else:
        mount("overlay", target, options, _MS_RDONLY)


def unmount(target: str) -> None:
    """Take a mount away; what still uses it keeps it until the last use ends. Raises OSError."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH):
        raise _error(f"unmounting {target}")


def open_in_root(root: int, path: str, flags: int, mode: int = 0) -> int:
    """A descriptor of `path` with `root` (a directory) as its root: no symlink and no `..` leads out of it.

    Raises OSError.
    """
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, "no file has a name with a zero byte")
    how = _OpenHow(flags | os.O_CLOEXEC, mode, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_XDEV)
    found: int = _libc.syscall(_SYS_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        raise _error(f"opening {path}")
    return found


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
