"""Sends a version to another place: its files first, its manifest last, so that readers find all of it or nothing."""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, field_validator

from pipeline.errors import ConfigurationError, PipelineError
from pipeline.snapshots.kept_elsewhere import Expected, NoSuchVersion, Sealed, expected, sealed_in, tags_in
from pipeline.snapshots.manifest import MANIFEST, SnapshotDamaged, file_sha256
from pipeline.snapshots.reading import folder_of, locate, tags_of
from pipeline.snapshots.remote import Place, checked_url
from pipeline.snapshots.tags import NIGHTLY
from pipeline.types import Record

_AT_ONCE = 4
_TRIES = 4
_CLAIM = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")


class PushRefused(PipelineError):
    """The place has something else under that name. The text names both."""


class PublishConfig(Record):
    """Where the nightly run sends the versions that it publishes."""

    url: str | None = Field(default=None)
    """Address of a folder, e.g. s3://bucket/prefix or /mnt/share; keys come from the environment. None for nowhere."""

    @field_validator("url")
    @classmethod
    def _usable(cls, url: str | None) -> str | None:
        try:
            if url is not None and "://" not in checked_url(url) and not Path(url).is_absolute():
                raise ValueError(f"{url!r} is relative; give a whole path")
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        return url


@dataclass(frozen=True)
class Pushed:
    """What was sent."""

    name: str
    version: str
    url: str
    """Of the folder of the version."""
    created: bool
    """False when the place had the version already."""
    sent: int
    """Files that were not there yet."""
    bytes: int
    """Of those files."""
    tags: tuple[str, ...]
    """That name the version there from now on."""


def push_version(root: Path, reference: str, url: str) -> Pushed:
    """Copy a version of the data folder `root` to the folder at `url`, with the tags that name it.

    Who sends a version number there claims it for its manifest, by a file in NAME/claims/VERSION, until the version is
    whole; whoever has another one under that number is refused, before and after that. A push that was cut off is
    continued by the next: what has the right size is not sent again, since only the claimed version is written there.
    What a killed push had sent of a single file may stay with an S3 server as an unfinished upload, which a rule of the
    bucket removes.

    Raises NoSuchVersion, PushRefused, SnapshotDamaged for a version that is not unharmed here, InfrastructureFailure.
    """
    place = Place(url)
    try:
        path = locate(root, reference)
    except ValueError as error:
        raise NoSuchVersion(str(error)) from error
    name, version = path.parent.name, path.name
    own = sealed_in(Place(str(folder_of(root, name).parent)), name, version)
    if own is None:
        raise SnapshotDamaged(f"{path}/{MANIFEST} is missing")
    tags = tuple(tag for tag, tagged in tags_of(root, name).items() if tagged == version)
    _refuse_moved_nights(place, name, version, tags)
    created, sent = False, []
    if not _is_there(place, own):
        with _claimed(place, own):
            if not _is_there(place, own):
                sent = _send(place, path, own)
                created = place.create(f"{name}/{version}/{MANIFEST}", own.text)
            if not _is_there(place, own):
                raise PushRefused(f"{place}/{name}/{version}/{MANIFEST} was removed while it was written")
    for tag in tags:
        place.write(f"{name}/tags/{tag}", f"{version}\n".encode())
    size = sum((path / file.path).stat().st_size for file in sent)
    return Pushed(name, version, f"{place}/{name}/{version}", created, len(sent), size, tags)


def _refuse_moved_nights(place: Place, name: str, version: str, tags: tuple[str, ...]) -> None:
    nights = [tag for tag in tags if tag.startswith(NIGHTLY)]
    there = tags_in(place, name) if nights else {}
    for tag in nights:
        if there.get(tag, version) != version:
            raise PushRefused(f"{tag} of {name!r} is {there[tag]} in {place} and {version} here; remove one of them")


def _is_there(place: Place, own: Sealed) -> bool:
    """Whether the place has this version, whole. Raises PushRefused when it has another one under that number."""
    other = sealed_in(place, own.manifest.name, own.manifest.version)
    if other is not None and other.sha256 != own.sha256:
        raise PushRefused(f"{place} has {other}, here is {own}: a version is never replaced")
    return other is not None


@contextmanager
def _claimed(place: Place, own: Sealed) -> Iterator[None]:
    """Nobody with another manifest sends files under that number meanwhile. Raises PushRefused when somebody does.

    Everyone writes a claim of his own and looks for others then: of two, one at least sees the other, and whoever does
    takes his own back. So it needs no conditional writes, only listings that show what was written before, as those of
    S3 do. A claim stays when its push failed or was killed, since files of it may lie there.
    """
    name, version = own.manifest.name, own.manifest.version
    folder = f"{name}/claims/{version}"
    claim = f"{folder}/{own.sha256}.{uuid.uuid4().hex}"
    for wait in range(_TRIES):
        place.write(claim, b"claimed\n")
        others = [one for one in place.names(folder) if _CLAIM.fullmatch(one) and not one.startswith(own.sha256)]
        if not others:
            break
        place.remove(claim)
        time.sleep(random.uniform(0, 0.2 * 2**wait))  # the other may have taken back his own as well
    else:
        other = others[0].partition(".")[0]
        raise PushRefused(
            f"{place} is being sent another version under that number, with the manifest {other}; here is {own}. "
            f"If that push was given up, remove {place}/{folder}/{others[0]} and {place}/{name}/{version}"
        )
    yield
    for one in place.names(folder):
        if one.startswith(own.sha256):
            place.remove(f"{folder}/{one}")


def _send(place: Place, path: Path, own: Sealed) -> list[Expected]:
    """Send what is not there; what was sent. Raises SnapshotDamaged."""
    folder = f"{own.manifest.name}/{own.manifest.version}"

    def send(file: Expected) -> Expected | None:
        source = path / file.path
        if not source.is_file() or file_sha256(source) != file.sha256:
            raise SnapshotDamaged(f"{source} is missing or was changed; it is not sent")
        size = source.stat().st_size
        if place.size(f"{folder}/{file.path}") == size:
            return None
        place.upload(source, f"{folder}/{file.path}")
        if place.size(f"{folder}/{file.path}") != size:
            raise PushRefused(f"{place}/{folder}/{file.path} has another size than what was sent")
        return file

    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="push")
    try:
        sent = list(threads.map(send, expected(own.manifest, str(path))))
    finally:
        threads.shutdown(cancel_futures=True)
    return [file for file in sent if file is not None]
