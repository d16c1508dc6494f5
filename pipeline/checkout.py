"""A tree of files, whatever it came from, becomes one normalised tar that is named by its hash.

Sources hand over `Member`s (a walked directory, an archive, a git commit); `collect` holds them against the limits and
checks them, `store` writes them. Nothing is ever unpacked onto this machine's file system, so a hostile archive has no
path to write to. The readers are directory_tree.py, git_tree.py and archive_tree.py beside this file.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.curation import licences
from pipeline.disk import sync
from pipeline.errors import InfrastructureFailure, ItemRejected
from pipeline.types import Checkout, Repository

MTIME = 1_577_836_800
"""2020-01-01: one time for all files, so `make` finds nothing out of date; not 0, which zip tools refuse."""

HISTORY = frozenset({".git", ".hg", ".svn"})
"""Never part of a tree: history tells an agent the answers of tasks made from it."""

_MAX_HOPS = 40
_SAMPLE = 65_536
_MAX_SHOWN = 200


class CheckoutConfig(BaseModel):
    """What one tree may hold; a tree over a limit is refused, never cut."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_files: int = Field(default=20_000, gt=0)
    """Files and symlinks; directories are held against the same number, apart."""
    max_bytes: int = Field(default=512 * 2**20, gt=0)
    """Bytes of all files together."""
    max_file_bytes: int = Field(default=100 * 2**20, gt=0)
    """Bytes of one file."""


@dataclass(frozen=True, slots=True)
class Member:
    """One path of a tree. Bytes of a name that are not UTF-8 are kept as surrogate escapes."""

    name: str
    """Relative, parts joined by `/`."""
    kind: Literal["file", "symlink", "directory"]
    size: int = 0
    executable: bool = False
    target: str = ""
    """Where a symlink points."""
    read: Callable[[], bytes] = bytes
    """Content of a file; called once, after all limits were checked."""


@dataclass(frozen=True)
class Collected:
    """A whole tree that passed every check; its content is still unread."""

    members: Mapping[str, Member]
    """By name, every directory on the way included."""
    warnings: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """The hash that `store` will give; reads everything. Raises ItemRejected (unreadable)."""
        return _write(self.members, None).sha256


@dataclass
class _Written:
    sha256: str = ""
    n_files: int = 0
    n_bytes: int = 0
    not_utf8: list[str] = field(default_factory=list)
    crlf: list[str] = field(default_factory=list)
    licence_files: dict[str, bytes] = field(default_factory=dict)


def collect(members: Iterable[Member], config: CheckoutConfig) -> Collected:
    """Check a tree, member by member, so that `members` is read no further than a limit. History folders are dropped.

    Raises ItemRejected: empty_repository, too_many_files, too_large, file_too_large, symlink_loop, path_outside_tree,
    unreadable.
    """
    tree: dict[str, Member] = {}
    n_files = n_bytes = n_directories = 0
    for member in members:
        if HISTORY.intersection(member.name.split("/")):
            continue
        if member.kind == "directory":
            n_directories += 1
        else:
            n_files += 1
            n_bytes += member.size
        if n_files > config.max_files or n_directories > config.max_files:
            what = "files" if n_files > config.max_files else "directories"
            raise ItemRejected("too_many_files", f"more than {config.max_files:,} {what}")
        require_size(member.name, member.size, config)
        if n_bytes > config.max_bytes:
            raise ItemRejected("too_large", f"more than {config.max_bytes:,} bytes in all")
        tree[member.name] = member  # a name given twice: the later one counts, as when unpacking
    if n_files == 0:
        raise ItemRejected("empty_repository", "there is no file in it")
    _fill_in_parents(tree)
    return Collected(tree, tuple(_check_symlinks(tree)))


def require_size(name: str, size: int, config: CheckoutConfig) -> None:
    """Raises ItemRejected (file_too_large); asked before a file is read."""
    if size > config.max_file_bytes:
        limit = f"one file may have {config.max_file_bytes:,}"
        raise ItemRejected("file_too_large", f"{printable(name)} has {size:,} bytes, {limit}")


def store(repository: Repository, tree: Collected, destination: Path) -> Checkout:
    """Write `destination/<tree_sha256>.tar` (uncompressed, normalised) and say what was found.

    An equal tree that is there already is kept. Raises ItemRejected (unreadable) and InfrastructureFailure when the
    disk fails.
    """
    written = _store_tar(tree.members, destination, repository.repository_id)
    finding = licences.identify(written.licence_files)
    return Checkout(
        repository_id=repository.repository_id,
        tree_sha256=written.sha256,
        n_files=written.n_files,
        n_bytes=written.n_bytes,
        license=finding.license,
        license_path=finding.path,
        license_sha256=finding.sha256,
        warnings=(*tree.warnings, *_content_warnings(written), *finding.warnings),
    )


def _store_tar(tree: Mapping[str, Member], destination: Path, repository_id: str) -> _Written:
    # The name is the same for every attempt at a repository, so what a killed run left is overwritten.
    part = destination / f".{repository_id}.tar.part"
    try:
        destination.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as sink:
                written = _write(tree, sink)
                sink.flush()
                os.fsync(sink.fileno())
            final = destination / f"{written.sha256}.tar"
            if not final.exists():
                part.rename(final)
                sync(destination)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InfrastructureFailure(f"a tree could not be stored in the data folder: {error.strerror}") from error
    return written


def printable(name: str) -> str:
    """A name for people and tables: bytes that are not UTF-8 become `\\xNN`, a long one is cut."""
    shown = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"
    return shown.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def safe_name(name: str) -> str:
    """The name with empty and `.` parts removed. Raises ItemRejected (path_outside_tree, unreadable)."""
    if name.startswith("/"):
        raise ItemRejected("path_outside_tree", f"{printable(name)} is an absolute path")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ItemRejected("path_outside_tree", f"{printable(name)} leads out of the tree")
    if len(os.fsencode(name)) > 4000 or any(len(os.fsencode(part)) > 255 for part in parts):
        raise ItemRejected("unreadable", f"{printable(name)} is longer than a file system takes")
    return "/".join(parts)


class Tree:
    """Read-only view of a stored tar. Symlinks are listed, never followed."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or tarfile.TarError when `path` is not a stored tree."""
        self._path = path
        with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as archive:
            self._infos = {info.name: info for info in archive}
        self.files: Mapping[str, int] = {name: info.size for name, info in self._infos.items() if info.isreg()}
        """Name -> size of each regular file, in the order of the names."""

    def is_executable(self, name: str) -> bool:
        return bool(self._infos[name].mode & 0o111)

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """The first `max_bytes` of a regular file. Raises KeyError when there is no such file."""
        size = self.files[name]
        with self._path.open("rb") as archive:
            archive.seek(self._infos[name].offset_data)
            return archive.read(min(size, max_bytes))


def _fill_in_parents(tree: dict[str, Member]) -> None:
    for name in list(tree):
        parent = name.rpartition("/")[0]
        while parent:
            known = tree.setdefault(parent, Member(parent, "directory"))
            if known.kind == "symlink":
                raise ItemRejected("path_outside_tree", f"{printable(name)} is written through the symlink {parent}")
            if known.kind == "file":
                raise ItemRejected("unreadable", f"{printable(parent)} is both a file and a directory")
            parent = parent.rpartition("/")[0]


def _check_symlinks(tree: Mapping[str, Member]) -> list[str]:
    """Raises ItemRejected (path_outside_tree, symlink_loop); a link to nothing is only a warning."""
    dangling = []
    for name, member in tree.items():
        if member.kind != "symlink":
            continue
        end = _resolve(name, tree)
        if not end or name.startswith(f"{end}/"):
            raise ItemRejected("symlink_loop", f"{printable(name)} leads back to a directory that contains it")
        if end not in tree:
            dangling.append(name)
    return examples("symlinks that lead to nothing", dangling)


def _resolve(name: str, tree: Mapping[str, Member]) -> str:
    """Where a symlink ends, by the names alone. Raises ItemRejected (path_outside_tree, symlink_loop)."""
    ahead = deque(name.split("/"))
    here: list[str] = []
    hops = 0
    while ahead:
        part = ahead.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                raise ItemRejected("path_outside_tree", f"the symlink {printable(name)} leads out of the tree")
            here.pop()
            continue
        here.append(part)
        member = tree.get("/".join(here))
        if member is None or member.kind != "symlink":
            continue
        hops += 1
        if hops > _MAX_HOPS:
            raise ItemRejected("symlink_loop", f"the symlink {printable(name)} never ends")
        if member.target.startswith("/"):
            raise ItemRejected("path_outside_tree", f"the symlink {printable(name)} leads to an absolute path")
        here.pop()
        ahead.extendleft(reversed(member.target.split("/")))
    return "/".join(here)


class _Hashing(io.RawIOBase):
    """A sink that hashes what passes, and hands it on where there is somewhere to hand it to."""

    def __init__(self, sink: IO[bytes] | None) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override]  # tarfile only writes bytes
        self._hash.update(data)
        return self._sink.write(data) if self._sink else len(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _write(tree: Mapping[str, Member], sink: IO[bytes] | None) -> _Written:
    hashing = _Hashing(sink)
    written = _Written()
    # GNU format carries names as raw bytes, so names that are not UTF-8 survive.
    with tarfile.open(
        fileobj=hashing, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for name in sorted(tree, key=os.fsencode):
            _add(archive, tree[name], written)
    written.sha256 = hashing.hexdigest()
    return written


def _add(archive: tarfile.TarFile, member: Member, written: _Written) -> None:
    info = tarfile.TarInfo(member.name)
    info.mtime = MTIME
    info.mode = 0o755 if member.kind == "directory" or member.executable else 0o644
    if member.kind == "directory":
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
        return
    written.n_files += 1
    if not _is_utf8(os.fsencode(member.name)):
        written.not_utf8.append(member.name)
    if member.kind == "symlink":
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, member.target, 0o777
        archive.addfile(info)
        return
    data = member.read()
    info.size = len(data)
    if info.size != member.size:
        raise ItemRejected("unreadable", f"{printable(member.name)} changed while it was read")
    written.n_bytes += info.size
    _inspect(member.name, data, written)
    archive.addfile(info, io.BytesIO(data))


def _inspect(name: str, data: bytes, written: _Written) -> None:
    sample = data[:_SAMPLE]
    if b"\0" not in sample and not _is_utf8(sample):
        written.not_utf8.append(name)
    if (sample.startswith(b"#!") or name.endswith((".sh", ".bash"))) and b"\r\n" in sample:
        written.crlf.append(name)
    if licences.is_licence_file(name):
        written.licence_files[name] = data


def _is_utf8(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)  # incremental: a sample may end inside a character
    except UnicodeDecodeError:
        return False
    return True


def _content_warnings(written: _Written) -> list[str]:
    return [
        *examples("files or names that are not UTF-8", list(dict.fromkeys(written.not_utf8))),
        *examples("scripts with CRLF line ends, which may not start", written.crlf),
    ]


def examples(what: str, names: list[str]) -> list[str]:
    """A warning with the number of names and the first three; none when there are no names."""
    if not names:
        return []
    shown = ", ".join(printable(name) for name in names[:3])
    return [f"{what} ({len(names)}): {shown}{' …' if len(names) > 3 else ''}"]
