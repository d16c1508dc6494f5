"""Reads archives (tar, zip, Debian packages) into `Member`s (pipeline/checkout.py) without unpacking them anywhere.

Compressed archives are inflated once, into an unnamed temporary file; the limits are looked at while the bytes come, so
an archive that expands without end stops at them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from pipeline.checkout import CheckoutConfig, Member, printable, require_size, safe_name
from pipeline.errors import ItemRejected

_HEADERS_PER_FILE = 4096
"""Bytes of tar headers and padding allowed for each file, when an archive's whole size is held against the limits."""

_IN_MEMORY = 32 * 2**20
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60


def archive_bytes(config: CheckoutConfig) -> int:
    """The most bytes that a tar within the limits can have, uncompressed."""
    return config.max_bytes + config.max_files * _HEADERS_PER_FILE


@contextmanager
def members(archive: bytes, config: CheckoutConfig, *, strip_root: bool) -> Iterator[list[Member]]:
    """The members of a tar archive (plain, gzip, bzip2 or xz); they can be read inside the `with` only.

    `strip_root` drops the one top directory that source packages have. Raises ItemRejected: path_outside_tree,
    special_file, too_many_files, file_too_large, too_large, and unreadable for what is no tar archive.
    """
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        try:
            found = list(_scan(archive, spool, config))
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise ItemRejected("unreadable", f"not a sound tar archive: {error}") from error
        yield _without_root(found) if strip_root else [member for member in found if member.name]


@contextmanager
def zip_members(archive: bytes, config: CheckoutConfig) -> Iterator[list[Member]]:
    """The members of a zip archive; they can be read inside the `with` only.

    Raises ItemRejected as `members` does; content that is not what its directory says is `unreadable`.
    """
    try:
        opened = zipfile.ZipFile(io.BytesIO(archive))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise ItemRejected("unreadable", f"not a sound zip archive: {error}") from error
    with opened as packed:
        infos = packed.infolist()
        if len(infos) > 2 * config.max_files:
            raise ItemRejected("too_many_files", f"more than {2 * config.max_files:,} entries in the archive")
        yield [member for info in infos if (member := _zip_member(packed, info, config)).name]


def _zip_member(packed: zipfile.ZipFile, info: zipfile.ZipInfo, config: CheckoutConfig) -> Member:
    name = safe_name(info.filename)
    require_size(name, info.file_size, config)
    mode = info.external_attr >> 16
    if info.is_dir():
        return Member(name, "directory")
    if stat.S_ISLNK(mode):
        return Member(name, "symlink", target=_unzipped(packed, info).decode("utf-8", "surrogateescape"))
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ItemRejected("special_file", f"{printable(name)} is a device or a pipe")
    return Member(name, "file", info.file_size, bool(mode & 0o111), read=lambda: _unzipped(packed, info))


def _unzipped(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """No more than the size that was held against the limits. Raises ItemRejected (unreadable)."""
    try:
        with packed.open(info) as file:
            data = file.read(info.file_size + 1)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError) as error:
        raise ItemRejected("unreadable", f"{printable(info.filename)} cannot be read: {error}") from error
    if len(data) != info.file_size:
        raise ItemRejected("unreadable", f"{printable(info.filename)} has another size than its archive says")
    return data


def debian_data(package: bytes) -> bytes:
    """The tar archive of the files in a Debian binary package, still compressed. Raises ItemRejected (unreadable)."""
    if not package.startswith(_AR_MAGIC):
        raise ItemRejected("unreadable", "not a Debian package: it is no ar archive")
    place = len(_AR_MAGIC)
    while len(header := package[place : place + _AR_HEADER]) == _AR_HEADER:
        name, size = header[:16].rstrip(b" /"), header[48:58].strip()
        if not size.isdigit() or header[58:] != b"`\n":
            break
        place += _AR_HEADER
        if name.startswith(b"data.tar"):
            return package[place : place + int(size)]
        place += int(size) + int(size) % 2
    raise ItemRejected("unreadable", "not a Debian package: there is no data.tar in it")


class _Tee(io.RawIOBase):
    """What is read goes to the spool as well, so that content can be found again by its offset."""

    def __init__(self, source: io.BufferedIOBase, spool: IO[bytes], limit: int) -> None:
        self._source = source
        self._spool = spool
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ItemRejected("too_large", "the archive expands beyond the limits")
        self._spool.write(data)
        return data


def _scan(archive: bytes, spool: IO[bytes], config: CheckoutConfig) -> Iterator[Member]:
    tee = _Tee(_inflated(archive), spool, archive_bytes(config))
    sizes: dict[str, tuple[int, int]] = {}
    with tarfile.open(fileobj=tee, mode="r|", encoding="utf-8", errors="surrogateescape") as tar:
        for index, info in enumerate(tar):
            if index > 2 * config.max_files:
                raise ItemRejected("too_many_files", f"more than {2 * config.max_files:,} entries in the archive")
            # A header is held against the limit before the content behind it is inflated.
            require_size(info.name, info.size, config)
            yield _member(info, sizes, spool)


def _member(info: tarfile.TarInfo, sizes: dict[str, tuple[int, int]], spool: IO[bytes]) -> Member:
    name = safe_name(info.name)
    if info.isdir():
        return Member(name, "directory")
    if info.issym():
        return Member(name, "symlink", target=info.linkname)
    if info.islnk():
        # A hard link is a second name of a file that came before it in the same archive.
        linked = safe_name(info.linkname)
        if linked not in sizes:
            raise ItemRejected("path_outside_tree", f"{printable(name)} is a hard link to no file of the archive")
        offset, size = sizes[linked]
    elif info.isreg() and not info.issparse():
        offset, size = info.offset_data, info.size
    else:
        raise ItemRejected("special_file", f"{printable(name)} is a device, a pipe or a sparse file")
    sizes[name] = offset, size
    return Member(name, "file", size, bool(info.mode & 0o111), read=lambda: _content(spool, offset, size))


def _content(spool: IO[bytes], offset: int, size: int) -> bytes:
    spool.seek(offset)
    return spool.read(size)


def _inflated(archive: bytes) -> io.BufferedIOBase:
    raw = io.BytesIO(archive)
    if archive.startswith(b"\x1f\x8b"):
        return gzip.open(raw)
    if archive.startswith(b"BZh"):
        return bz2.open(raw)
    if archive.startswith(b"\xfd7zXZ\0"):
        return lzma.open(raw)
    return raw


def _without_root(found: list[Member]) -> list[Member]:
    """Raises ItemRejected (unreadable) when there is not exactly one top directory."""
    roots = {member.name.partition("/")[0] for member in found if member.name}
    if len(roots) != 1:
        raise ItemRejected("unreadable", f"the archive has {len(roots)} top directories instead of one")
    return [
        Member(rest, member.kind, member.size, member.executable, member.target, member.read)
        for member in found
        if (rest := member.name.partition("/")[2])
    ]
