"""Brings a version into a folder of its own, checked byte by byte, from the data folder or from another place."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.disk import sync
from pipeline.errors import InfrastructureFailure, PipelineError
from pipeline.snapshots.kept_elsewhere import MANIFEST_BYTES, Expected, Sealed, expected, resolved
from pipeline.snapshots.manifest import MANIFEST, SnapshotDamaged, file_sha256
from pipeline.snapshots.remote import BLOCK_BYTES, Place

_AT_ONCE = 4


class TargetInUse(PipelineError):
    """The folder that a version should go to holds something else."""


@dataclass(frozen=True)
class Pulled:
    """What came."""

    name: str
    version: str
    path: Path
    rows: int
    fetched: int
    """Files that were not there already, from this pull or from one that was cut off."""
    bytes: int
    """Of those files."""


def pull(source: Place | Path, reference: str, target: Path | None = None) -> Pulled:
    """Copy the version that a reference names to `target`, ./NAME-VERSION without one.

    `source` is a place that versions were pushed to, or a data folder.

    The size and the SHA-256 of every file are those of the manifest, whose own hash is right. The folder appears by one
    rename, or is there already with the same version, unharmed. What a pull that was cut off had fetched, it keeps in
    a hidden folder beside the target, from which the next one goes on; pulls to one target take turns.

    Raises NoSuchVersion, TargetInUse, SnapshotDamaged for whatever is not as the manifest says, InfrastructureFailure.
    """
    place = Place(str(source / "snapshots")) if isinstance(source, Path) else source
    sealed = resolved(place, reference)
    manifest = sealed.manifest
    folder = f"{manifest.name}/{manifest.version}"
    files = expected(manifest, f"{place}/{folder}")
    target = (target or Path(f"{manifest.name}-{manifest.version}")).resolve()
    unfinished = target.with_name(f".{target.name}.unfinished")
    fetched: list[int] = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _held(unfinished):
            if not _is_there(target, sealed, files):
                fetched = _fetch_all(place, folder, files, unfinished)
                _finish(unfinished, files, sealed)
                unfinished.rename(target)
                sync(target.parent)
    except OSError as error:
        raise InfrastructureFailure(f"{target} cannot be written: {error}") from error
    return Pulled(manifest.name, manifest.version, target, manifest.rows, len(fetched), sum(fetched))


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make the folder and hold it against other pulls; gone afterwards when nothing is in it."""
    while True:
        folder.mkdir(exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # another pull has just finished with it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_same(folder, descriptor):
                continue
            try:
                yield
            finally:
                if _is_same(folder, descriptor) and not any(folder.iterdir()):
                    folder.rmdir()
            return
        finally:
            os.close(descriptor)


def _is_same(folder: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(folder), os.fstat(descriptor))
    return False


def _is_there(target: Path, sealed: Sealed, files: Sequence[Expected]) -> bool:
    """Whether the target is this version already, whole. Raises TargetInUse when it is anything but absent or empty."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return False
    there = target / MANIFEST
    if not there.is_file() or there.read_bytes() != sealed.text:
        raise TargetInUse(f"{target} is not empty and does not hold {sealed}; choose another folder with --to")
    for file in files:
        if not (target / file.path).is_file() or file_sha256(target / file.path) != file.sha256:
            raise TargetInUse(f"{target} holds {sealed}, but {file.path} is missing or was changed; move it away")
    return True


def _fetch_all(place: Place, folder: str, files: Sequence[Expected], into: Path) -> list[int]:
    """Fetch what is missing; the sizes of what was fetched."""
    _remove_foreign(into, {file.path for file in files})
    missing = [file for file in files if not _is_whole(into / file.path, file)]
    wanted, free = sum(file.bytes or 0 for file in missing), shutil.disk_usage(into).free
    if wanted > free:
        raise InfrastructureFailure(f"{into.parent} has {free} bytes free, and {wanted} are still to come")
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="pull")
    try:
        return list(threads.map(lambda file: _fetch(place, f"{folder}/{file.path}", file, into / file.path), missing))
    finally:
        threads.shutdown(cancel_futures=True)


def _remove_foreign(folder: Path, wanted: set[str]) -> None:
    """Whatever does not belong to the version: links, files of another version that was fetched for the same target."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.is_symlink() or not path.is_file() or str(path.relative_to(folder)) not in wanted:
            path.unlink()


def _is_whole(path: Path, file: Expected) -> bool:
    return path.is_file() and file.bytes in (None, path.stat().st_size) and file_sha256(path) == file.sha256


def _fetch(place: Place, source: str, file: Expected, path: Path) -> int:
    """One file, whole and right or not at all; its size. Raises SnapshotDamaged and InfrastructureFailure."""
    limit = MANIFEST_BYTES if file.bytes is None else file.bytes
    digest, size = hashlib.sha256(), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    try:
        with place.opened(source) as incoming, path.open("xb") as sink:
            while size <= limit and (block := incoming.read(BLOCK_BYTES)):
                size += len(block)
                digest.update(block)
                sink.write(block)
        if size > limit or (file.bytes is not None and size < file.bytes):
            found = f"more than {limit}" if size > limit else str(size)
            raise SnapshotDamaged(f"{place}/{source} has {found} bytes, its manifest says {file.bytes}")
        if digest.hexdigest() != file.sha256:
            raise SnapshotDamaged(f"{place}/{source} was changed: its SHA-256 is not that of its manifest")
        sync(path)
    except FileNotFoundError as error:
        path.unlink(missing_ok=True)
        raise SnapshotDamaged(f"{place}/{source} is missing") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return size


def _finish(folder: Path, files: Sequence[Expected], sealed: Sealed) -> None:
    """Put the rest on disk, the manifest last."""
    for parent in sorted({(folder / file.path).parent for file in files}):
        sync(parent)
    (folder / MANIFEST).write_bytes(sealed.text)
    sync(folder / MANIFEST)
    sync(folder)
