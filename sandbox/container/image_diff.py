"""What differs between a container and its image, by content: the engine lists touched paths, then each is read.

Only the engine's API is used, so this works with any engine; one archive per touched folder instead of one per file.
An engine may take a file whose size, mode and time of change are those in the image for untouched: this is a way to
see what honest commands did, not a defence.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import stat
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

import docker
from docker.errors import NotFound

from sandbox.streams import engine_call
from sandbox.types import FileChange

logger = logging.getLogger(__name__)

NEVER = ("/proc", "/sys", "/dev", "/run")
# What the engine itself puts into the file system of a container.
ENGINE_FILES = frozenset({"/.dockerenv", "/sbin/docker-init", "/usr/sbin/docker-init"})
# From this many touched paths on, reading their folder as a whole is cheaper than asking for each (about 40 ms).
WHOLE_FOLDER_FROM = 6
# A folder that turns out larger is read path by path after all.
WHOLE_FOLDER_BYTES = 64 << 20
# Folders that are large in every image: not even tried as a whole.
LARGE_FOLDERS = frozenset({"/", "/usr", "/usr/lib", "/usr/local", "/usr/share", "/var", "/var/lib", "/opt", "/home"})

Kind = Literal["file", "directory", "symlink", "other"]
_TOUCHED: dict[int, Literal["added", "modified", "deleted"]] = {0: "modified", 1: "added", 2: "deleted"}
# Bits of the engine's file modes (those of Go, not of Unix).
_GO_SYMLINK, _GO_DIRECTORY, _GO_TYPE = 1 << 27, 1 << 31, 0x8F280000
_GO_SPECIAL = ((1 << 23, stat.S_ISUID), (1 << 22, stat.S_ISGID), (1 << 20, stat.S_ISVTX))


@dataclass(frozen=True)
class Entry:
    """One path of a file system, by content."""

    type: Kind
    sha256: str | None = None
    size: int = 0
    mode: int = 0


class PristineEntries:
    """What paths hold in their image, read once per image and path. Safe for several threads."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Entry | None]] = {}
        self._guard = threading.Lock()

    def get(self, image: str, paths: list[str], read: Callable[[list[str]], dict[str, Entry]]) -> dict[str, Entry]:
        """Entries of `paths`, absent ones left out; `read` is called for those not yet known."""
        with self._guard:
            known = dict(self._known.get(image, {}))
        if unknown := [path for path in paths if path not in known]:
            found = read(unknown)
            fresh: dict[str, Entry | None] = {path: found.get(path) for path in unknown}
            known |= fresh
            with self._guard:
                self._known.setdefault(image, {}).update(fresh)
        return {path: entry for path in paths if (entry := known.get(path)) is not None}


def image_changes(
    client: docker.DockerClient,
    container: str,
    pristine: Callable[[list[str]], dict[str, Entry]],
) -> list[FileChange]:
    """The differences of a container from its image, sorted by path; `pristine` reads paths of that image.

    Raises SandboxUnavailable.
    """
    touched = _touched(client, container)
    added = {path for path, kind in touched.items() if kind == "added"}
    remaining = [path for path, kind in touched.items() if kind != "deleted"]
    now = read_entries(client, container, remaining, added)
    before = pristine([path for path in touched if path not in added])
    changes: list[FileChange] = []
    for path, kind in sorted(touched.items()):
        if kind == "deleted":
            changes.append(FileChange(path=path, kind=kind, type=before.get(path, Entry("other")).type))
        elif (entry := now.get(path)) is not None and entry != before.get(path):
            changes.append(
                FileChange(
                    path=path,
                    kind=kind,
                    type=entry.type,
                    sha256=entry.sha256,
                    size=entry.size,
                    mode=entry.mode,
                )
            )
    return changes


def read_entries(
    client: docker.DockerClient, container: str, paths: list[str], whole: Iterable[str] = ()
) -> dict[str, Entry]:
    """The entries of `paths` in a container; what is not there is left out. Raises SandboxUnavailable.

    Folders in `whole` are known to belong to the wanted paths with everything below them.
    """
    reader = _Reader(client, container, set(paths), set(whole))
    with engine_call("reading files of a container"):
        reader.read()
    return reader.found


def _touched(client: docker.DockerClient, container: str) -> dict[str, Literal["added", "modified", "deleted"]]:
    with engine_call("listing the changes of a container"):
        listed = client.api.diff(container) or []
    return {
        one["Path"]: _TOUCHED[one["Kind"]]
        for one in listed
        if one["Path"] not in ENGINE_FILES and not _is_under(one["Path"], NEVER)
    }


def _is_under(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


class _TooLarge(Exception):
    """A folder holds more bytes than it is worth to read it as a whole."""


class _Reader:
    """Reads the wanted paths of one container with as few requests as it can."""

    def __init__(self, client: docker.DockerClient, container: str, wanted: set[str], whole: set[str]) -> None:
        self._client = client
        self._container = container
        self._wanted = {_key(path): path for path in wanted}
        self._whole = whole
        self._below: dict[str, list[str]] = {}
        self.found: dict[str, Entry] = {}
        for path in wanted:
            if path != "/":
                self._below.setdefault(str(PurePosixPath(path).parent), []).append(path)
        for folder in list(self._below):
            self._link(folder)

    def _link(self, folder: str) -> None:
        """Make every folder above a wanted path reachable from the root."""
        while folder != "/":
            parent = str(PurePosixPath(folder).parent)
            siblings = self._below.setdefault(parent, [])
            if folder not in siblings:
                siblings.append(folder)
            folder = parent

    def read(self) -> None:
        """Fill `found`."""
        self._visit("/")
        for path in self._wanted.values():
            # Archives leave sockets out.
            if path not in self.found and path in self._whole and (status := self._take_status(path)) is not None:
                self.found.setdefault(path, replace(status, type="other"))

    def _visit(self, folder: str) -> None:
        """Read what is wanted in and below an existing folder."""
        if _key(folder) in self._wanted and folder not in self._whole:
            self._take_status(folder)
        children = self._below.get(folder, [])
        if self._count(folder) >= WHOLE_FOLDER_FROM and folder not in LARGE_FOLDERS and self._try_whole(folder):
            return
        for child in sorted(children):
            if "\ufffd" in child:
                self._take_unnameable(folder, child)
            elif child in self._whole:
                self._take_archive(child, None)
            elif child in self._below:
                self._visit(child)
            else:
                self._take_single(child)

    def _count(self, folder: str) -> int:
        """Wanted paths below a folder that each cost a request, as far as it matters."""
        total = 0
        for child in self._below.get(folder, []):
            total += 1 if child in self._whole or child not in self._below else self._count(child)
        return total

    def _try_whole(self, folder: str) -> bool:
        try:
            self._take_archive(folder, WHOLE_FOLDER_BYTES)
        except _TooLarge:
            logger.debug("%s is too large to be read as a whole", folder)
            return False
        return True

    def _take_unnameable(self, folder: str, child: str) -> None:
        """The engine cannot be asked for a name that is not UTF-8: it comes with its folder, if that is small."""
        if child not in self.found and not self._try_whole(folder):
            logger.warning("%s: its name is not UTF-8 and its folder is large, so its content is not looked at", child)
            self.found[child] = Entry("other")

    def _take_status(self, path: str) -> Entry | None:
        """Type and mode of one path, without its content."""
        api = self._client.api
        response = api.head(self._url(), params={"path": path}, timeout=api.timeout)
        if response.status_code == 404:
            return None
        api._raise_for_status(response)
        mode = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))["mode"]
        kind: Kind = "directory" if mode & _GO_DIRECTORY else "symlink" if mode & _GO_SYMLINK else "other"
        unix = mode & 0o777 | sum(bit for go, bit in _GO_SPECIAL if mode & go)
        entry = Entry(kind if mode & _GO_TYPE else "file", mode=unix)
        if kind == "directory":
            self.found[path] = entry
        return entry

    def _take_single(self, path: str) -> None:
        """One path that nothing else wanted is known to be below; a folder among these is not read as a whole."""
        status = self._take_status(path)
        if status is None or status.type == "directory":
            return
        self._take_archive(path, None)
        if path not in self.found:
            self.found[path] = replace(status, type="other")

    def _take_archive(self, path: str, most_bytes: int | None) -> None:
        """Everything wanted at and below a path, from one archive."""
        parent = PurePosixPath(path).parent
        contents: dict[str, Entry] = {}
        read = 0
        with self._archive(path) as archive:
            for member in archive or ():
                read += member.size
                if most_bytes is not None and read > most_bytes:
                    raise _TooLarge(path)
                entry = _entry(archive, member, contents) if archive else None
                if entry is None:
                    continue
                name = f"/{member.name}" if path == "/" else str(parent / member.name)
                contents[member.name] = entry
                if (wanted := self._wanted.get(_key(name))) is not None:
                    self.found[wanted] = entry

    @contextmanager
    def _archive(self, path: str) -> Iterator[tarfile.TarFile | None]:
        api = self._client.api
        # Compression would cost the engine more time than the socket.
        headers = {"Accept-Encoding": "identity"}
        response = api.get(self._url(), params={"path": path}, headers=headers, stream=True, timeout=api.timeout)
        try:
            api._raise_for_status(response)
            with tarfile.open(fileobj=response.raw, mode="r|", bufsize=1 << 18) as archive:
                yield archive
        except NotFound:
            yield None
        finally:
            response.close()

    def _url(self) -> str:
        api = self._client.api
        return f"{api.base_url}/v{api.api_version}/containers/{self._container}/archive"


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo, contents: dict[str, Entry]) -> Entry | None:
    mode = stat.S_IMODE(member.mode)
    if member.isdir():
        return Entry("directory", mode=mode)
    if member.issym():
        return Entry(
            "symlink", hashlib.sha256(member.linkname.encode("utf-8", "surrogateescape")).hexdigest(), mode=mode
        )
    if member.islnk():
        return contents.get(member.linkname)
    if not member.isreg():
        return Entry("other", mode=mode)
    content = archive.extractfile(member)
    if content is None:
        return None
    digest = hashlib.sha256()
    while chunk := content.read(1 << 20):
        digest.update(chunk)
    return Entry("file", digest.hexdigest(), member.size, mode)


def _key(path: str) -> str:
    """One spelling of a path in the engine's list and in an archive: they replace invalid bytes differently."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return re.sub("\ufffd+", "\ufffd", text)
