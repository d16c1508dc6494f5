"""What keeps the state under judgement from misleading the verifier: files are read within bounds, programs run last.

Runs inside a sandbox with the trusted interpreter, next to verifier_runner.py, and imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from urllib.parse import unquote

LARGEST_FILE = 64 << 20
# Of values that a message shows: characters, and elements.
LARGE_TEXT, LARGE_COLLECTION = 10_000, 500
SYS_OPENAT2 = 437
RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x01, 0x02, 0x08
NOT_FILES = ("/proc/", "/sys/", "/dev/")
NULL_DEVICE = os.makedev(1, 3)
MEMORY_FILES = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max")
# Memory that a cgroup without a limit of its own names, or more: then there is no bound to keep.
NO_LIMIT = 1 << 50
LEAST_MEMORY = 128 << 20
STARTS_PROGRAMS = {"subprocess", "pty", "multiprocessing", "asyncio", "concurrent.futures"}
STARTING_CALLS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}


class Box:
    """Reads files of the judged state and nothing else; what it refuses is a failed assertion that names the path.

    Tests get it as the fixture `box`. A relative path starts at the working directory; folders that pytest gave to a
    test may be read too.
    """

    def __init__(self, temporary: Path) -> None:
        self._temporary = str(temporary)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def read(self, path: str | os.PathLike[str], max_bytes: int = LARGEST_FILE) -> bytes:
        """Content of a regular file of at most `max_bytes`. Raises AssertionError for everything else.

        Symlinks are followed inside the judged file system only: never into another mount, never through /proc.
        """
        name = os.path.join(os.getcwd(), os.fspath(path))
        descriptor = self._open(name)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise AssertionError(f"{name} is no regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(max_bytes + 1)
        finally:
            os.close(descriptor)
        if len(content) > max_bytes:
            raise AssertionError(f"{name} has more than {max_bytes} bytes")
        return content

    def text(self, path: str | os.PathLike[str], max_bytes: int = LARGEST_FILE) -> str:
        """The same as UTF-8. Raises AssertionError when it is none."""
        content = self.read(path, max_bytes)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise AssertionError(f"{path} is no UTF-8 text: {error}") from None

    def is_possible(self) -> bool:
        """Whether this kernel, and whatever filters calls to it, knows openat2."""
        try:
            os.close(self._openat2("/", ".", RESOLVE_NO_MAGICLINKS))
        except OSError:
            return False
        return True

    def _open(self, name: str) -> int:
        anchor, how = "/", RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS
        if name.startswith(f"{self._temporary}/"):
            anchor, how = self._temporary, how | RESOLVE_BENEATH
        try:
            return self._openat2(anchor, os.path.relpath(name, anchor) if anchor != "/" else name.lstrip("/"), how)
        except OSError as error:
            raise AssertionError(f"{name} {_refusal(error)}") from None

    def _openat2(self, anchor: str, name: str, how: int) -> int:
        base = os.open(anchor, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # O_NONBLOCK: nobody writes into a pipe that lies there as an answer.
            request = struct.pack("QQQ", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0, how)
            descriptor = int(self._libc.syscall(SYS_OPENAT2, base, os.fsencode(name), request, len(request)))
            if descriptor < 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
            return descriptor
        finally:
            os.close(base)


def _refusal(error: OSError) -> str:
    match error.errno:
        case errno.EXDEV:
            return "leads out of the judged file system"
        case errno.ELOOP:
            return "leads through a link that is none of the file system"
        case errno.ENOENT | errno.ENOTDIR:
            return "does not exist"
        case _:
            return f"cannot be read: {error.strerror}"


def guard_open(own: tuple[Path, ...]) -> None:
    """From now on, opening what is no file of the judged state, or is too large, is a failed assertion.

    Plain `open`, whatever library calls it, and sqlite3 would wait for ever at a pipe, or take what a link into /proc
    or into the folders `own` of the verifier leads to. A path that names such a place itself is the test's own wish.
    """
    places = NOT_FILES + tuple(f"{folder}/" for folder in own)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            _check(os.fsdecode(arguments[0]), places)
        elif event == "sqlite3.connect" and isinstance(arguments[0], str) and arguments[0] != ":memory:":
            database = arguments[0]
            if database.startswith("file:"):
                database = unquote(database.removeprefix("file:").partition("?")[0])
            _check(database, places)

    sys.addaudithook(hook)


def _check(path: str, places: tuple[str, ...]) -> None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        # Opening it says the same.
        return
    if stat.S_ISDIR(found.st_mode) or (stat.S_ISCHR(found.st_mode) and found.st_rdev == NULL_DEVICE):
        return
    absolute = os.path.abspath(path)
    if os.path.realpath(path).startswith(places) and not absolute.startswith(places):
        raise AssertionError(f"{path} leads out of the judged file system")
    if not stat.S_ISREG(found.st_mode):
        raise AssertionError(f"{path} is no regular file")
    if found.st_size > LARGEST_FILE:
        raise AssertionError(f"{path} has {found.st_size} bytes, more than {LARGEST_FILE}")


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Inside, this process has half of the sandbox's memory: too much output or content fails the test that reads it.

    Without a bound the kernel would end the verifier, which then could say nothing.
    """
    bound = _memory_bound()
    if bound is None:
        yield
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def release_memory() -> None:
    """Give back what is free: the C library keeps it otherwise, and programs under test have that much less."""
    ctypes.CDLL(None).malloc_trim(0)


def _memory_bound() -> int | None:
    for name in MEMORY_FILES:
        try:
            text = Path(name).read_text()
        except OSError:
            continue
        if text.strip().isdigit() and int(text) < NO_LIMIT:
            return max(int(text) // 2, LEAST_MEMORY)
    return None


class Program(subprocess.Popen[Any]):
    """A program under test: it gets the environment that tests see, and no part of the verifier's own bounds."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # The C library of this process has no environment (see `show_environment`), so none can be inherited.
        if len(arguments) < 11 and options.get("env") is None:
            options["env"] = dict(os.environ)  # noqa: TID251
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        try:
            super().__init__(*arguments, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        # Where memory ends, the kernel takes programs first. One that ended already needs no word.
        with suppress(OSError):
            Path(f"/proc/{self.pid}/oom_score_adj").write_text("1000")


def show_environment(environment: Mapping[str, str]) -> None:
    """Tests and programs under test see this environment; the C libraries of this process see an empty one.

    They would look in it for modules to load (character sets, locales, cryptography), at any time.
    """
    shown = os.environ  # noqa: TID251
    shown.clear()
    shown.update(environment)
    for name in environment:
        os.unsetenv(name)
    subprocess.Popen = Program  # type: ignore[misc]


def is_large(value: object, depth: int = 4) -> bool:
    """Whether a value has more parts, or a longer text among them, than anybody reads in a message."""
    if isinstance(value, str | bytes):
        return len(value) > LARGE_TEXT
    if isinstance(value, list | tuple | set | frozenset | dict):
        parts = value.values() if isinstance(value, dict) else value
        return len(value) > LARGE_COLLECTION or depth == 0 or any(is_large(part, depth - 1) for part in parts)
    return False


def starts_programs(function: object) -> bool:
    """Whether a test, or a function of its file that it uses, starts a program: such tests come last.

    What a program of the judged state writes can then reach no test that only reads.
    """
    return _starts(function, set())


def _starts(function: object, seen: set[CodeType]) -> bool:
    if not isinstance(function, FunctionType) or function.__code__ in seen:
        return False
    seen.add(function.__code__)
    names = _names(function.__code__)
    if names & STARTING_CALLS:
        return True
    for name in names & set(function.__globals__):
        value = function.__globals__[name]
        if getattr(value, "__module__", None) in STARTS_PROGRAMS or getattr(value, "__name__", None) in STARTS_PROGRAMS:
            return True
        if getattr(value, "__module__", None) == function.__module__ and _starts(value, seen):
            return True
    return False


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
