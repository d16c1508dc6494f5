"""Places that keep versions besides the data folder: a folder, an S3 bucket, a web server; anything fsspec can address.

A place looks like the folder `snapshots` of a data folder: NAME/VERSION/…, NAME/tags/TAG. Keys and endpoints are those
of the machine, where fsspec's file systems find them (for S3 the variables AWS_… and ~/.aws), never part of an address.

Not here: what is sent (pushing.py) and what is checked of what comes (pulling.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

from pipeline.disk import sync
from pipeline.errors import ConfigurationError, InfrastructureFailure, PipelineError

BLOCK_BYTES = 8 * 1024 * 1024
"""What is read or sent at once; S3 takes 10,000 of them for one file."""


class Place:
    """One address. Safe to use from threads and from several processes.

    Every method raises InfrastructureFailure when the place cannot be reached or refuses.
    """

    def __init__(self, url: str) -> None:
        """Raises ConfigurationError for an address that cannot be used."""
        from fsspec.core import url_to_fs  # it takes a while, and configurations need only the check of an address

        self.url = checked_url(url).rstrip("/") or "/"
        try:
            self._files, self._base = url_to_fs(self.url, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            raise ConfigurationError(f"{self.url} needs the extra `s3`: pip install 'touchstone[s3]'") from error
        except ValueError as error:
            raise ConfigurationError(f"{self.url}: {error}") from error
        scheme = urlsplit(self.url).scheme
        self._local = Path(self._base) if scheme in ("", "file", "local") else None
        self._web = scheme in ("http", "https")

    def __str__(self) -> str:
        return self.url

    def read(self, path: str, limit: int) -> bytes | None:
        """A small file, None when it is not there. Raises InfrastructureFailure for more than `limit` bytes."""
        try:
            with self.opened(path) as file:
                data = file.read(limit + 1)
        except FileNotFoundError:
            return None
        if len(data) > limit:
            raise InfrastructureFailure(f"{self}/{path} is larger than {limit} bytes")
        return data

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[IO[bytes]]:
        """A file to be read from its beginning. Raises FileNotFoundError.

        A link that leads out of a folder on this machine is refused.
        """
        if self._local is not None and not (self._local / path).resolve().is_relative_to(self._local.resolve()):
            raise InfrastructureFailure(f"{self}/{path} is a link that leads out of {self}")
        with self._reached(path):
            # Ranges of fixed size and no cache: memory stays at one block for each open file. Web servers need not
            # know ranges.
            size = 0 if self._web else BLOCK_BYTES
            file = self._files.open(f"{self._base}/{path}", "rb", block_size=size, cache_type="none")
        with file:
            yield cast(IO[bytes], _Reader(self, path, file))

    def size(self, path: str) -> int | None:
        """Bytes of a file, None when it is not there."""
        with contextlib.suppress(FileNotFoundError), self._reached(path):
            return int(self._files.info(f"{self._base}/{path}")["size"])
        return None

    def names(self, path: str) -> list[str]:
        """Names in a folder; none when it is not there. Web servers need a listing page."""
        with contextlib.suppress(FileNotFoundError), self._reached(path):
            found = self._files.ls(f"{self._base}/{path}" + ("/" if self._web else ""), detail=False)
            return sorted({str(name).rstrip("/").rpartition("/")[2] for name in found})
        return []

    def create(self, path: str, data: bytes) -> bool:
        """Write a file that is not there yet, whole or not at all; False when it is there already.

        Of several that try at once one succeeds: by a link on this machine, by `If-None-Match: *` on S3. Servers that
        ignore or refuse that header, and other kinds of places, are only asked first whether the file is there, so that
        two within the same moment may both succeed and the later one stays: read it again.
        """
        with self._reached(path, writing=True):
            if self._local is not None:
                return self._link(self._local / path, data)
            if self._files.exists(f"{self._base}/{path}"):
                return False
            try:
                self._files.pipe_file(f"{self._base}/{path}", data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno != errno.ENOSYS:
                    raise
                self._files.pipe_file(f"{self._base}/{path}", data)
        return True

    def write(self, path: str, data: bytes) -> None:
        """Write a small file, or another content in its place."""
        with self._reached(path, writing=True):
            if self._local is None:
                self._files.pipe_file(f"{self._base}/{path}", data)
                return
            with self._replaced(self._local / path) as part:
                part.write_bytes(data)

    def remove(self, path: str) -> None:
        """Remove a file; nothing when it is gone."""
        with contextlib.suppress(FileNotFoundError), self._reached(path):
            self._files.rm_file(f"{self._base}/{path}")

    def upload(self, source: Path, path: str) -> None:
        """Copy a file there; it appears when all of it is there, where the place can do that, as S3 can."""
        with self._reached(path, writing=True), source.open("rb") as file:
            if self._local is None:
                with self._files.open(f"{self._base}/{path}", "wb", block_size=BLOCK_BYTES) as sink:
                    shutil.copyfileobj(file, sink, BLOCK_BYTES)
                return
            with self._replaced(self._local / path) as part, part.open("wb") as sink:
                shutil.copyfileobj(file, sink, BLOCK_BYTES)

    def _link(self, place: Path, data: bytes) -> bool:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
        try:
            part.write_bytes(data)
            sync(part)
            os.link(part, place)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        sync(place.parent)
        return True

    @contextlib.contextmanager
    def _replaced(self, place: Path) -> Iterator[Path]:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
        try:
            yield part
            sync(part)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
        sync(place.parent)

    @contextlib.contextmanager
    def _reached(self, path: str, *, writing: bool = False) -> Iterator[None]:
        """A file that is not there is an answer for who reads; for who writes it is a bucket that is not there."""
        try:
            yield
        except PipelineError:
            raise
        except FileNotFoundError as error:
            if writing:
                raise InfrastructureFailure(f"{self}/{path}: {error}") from error
            raise
        except Exception as error:  # file systems of fsspec share no class of errors
            raise InfrastructureFailure(f"{self}/{path}: {str(error) or type(error).__name__}") from error


class _Reader:
    """A file of a place, whose failures are those of the place."""

    def __init__(self, place: Place, path: str, file: IO[bytes]) -> None:
        self._place, self._path, self._file = place, path, file

    def read(self, size: int) -> bytes:
        with self._place._reached(self._path):
            return self._file.read(size)


def checked_url(url: str) -> str:
    """The address as it is. Raises ConfigurationError for one that holds a secret or cannot be continued."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(f"an address cannot be read: {error}") from error
    if "@" in parts.netloc:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise ConfigurationError(f"{shown} comes with a user or a key: leave it to the environment of the machine")
    if not url or "::" in url or (parts.scheme and (parts.query or parts.fragment)):
        raise ConfigurationError(f"{url.partition('?')[0]!r} is no address of a folder")
    return url
