"""Which versions a place has, and what a manifest from there may say. A place is trusted with nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipeline.errors import PipelineError
from pipeline.snapshots.manifest import MANIFEST, Manifest, SnapshotDamaged, parsed
from pipeline.snapshots.reading import LATEST, NAME, VERSION
from pipeline.snapshots.remote import Place

MANIFEST_BYTES = 64 * 1024 * 1024
"""Largest manifest, and largest file whose size is not known beforehand."""
TAG_BYTES = 100
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[^\x00-\x1f\x7f\\/:]{1,200}")
"""One part of a path: nothing that another file system reads in its own way."""


class NoSuchVersion(PipelineError):
    """A reference names no version. The text says what there is."""


@dataclass(frozen=True)
class Sealed:
    """A manifest with the text that it was read from."""

    manifest: Manifest
    text: bytes

    @property
    def sha256(self) -> str:
        """Its own hash."""
        return str(json.loads(self.text)["manifest_sha256"])

    def __str__(self) -> str:
        one = self.manifest
        return f"{one.name}@{one.version} of {one.created_at} with {one.rows} rows (manifest {self.sha256})"


@dataclass(frozen=True)
class Expected:
    """One file that a version consists of, besides its manifest."""

    path: str
    sha256: str
    bytes: int | None
    """None for the card of the first layout."""


def resolved(place: Place, reference: str) -> Sealed:
    """The version that NAME, NAME@VERSION, NAME@TAG or NAME@YYYY-MM-DD names in a place, as `locate` says.

    A version whose manifest is not there yet does not count. Raises NoSuchVersion and SnapshotDamaged.
    """
    name, _, wanted = reference.replace("/", "@", 1).partition("@")
    if not NAME.fullmatch(name):
        raise NoSuchVersion(f"{reference!r} is no reference to a version: NAME, NAME@VERSION, NAME@TAG or NAME@DAY")
    found = _found(place, name, wanted)
    if found is None:
        known = ", ".join([*versions_in(place, name), *sorted(tags_in(place, name))]) or "no version"
        raise NoSuchVersion(f"there is no snapshot {reference!r} in {place}; {name!r} has {known} there")
    return found


def _found(place: Place, name: str, wanted: str) -> Sealed | None:
    if wanted not in ("", LATEST) and not VERSION.fullmatch(wanted):
        wanted = tags_in(place, name).get(wanted, wanted)
    if VERSION.fullmatch(wanted):
        return sealed_in(place, name, wanted)
    if wanted in ("", LATEST) or _DAY.fullmatch(wanted):
        for version in reversed(versions_in(place, name)):
            found = sealed_in(place, name, version)
            if found is not None and (wanted in ("", LATEST) or found.manifest.created_at[:10] <= wanted):
                return found
    return None


def versions_in(place: Place, name: str) -> list[str]:
    """Versions that were at least begun there, oldest first."""
    return sorted((one for one in place.names(name) if VERSION.fullmatch(one)), key=lambda one: int(one[1:]))


def tags_in(place: Place, name: str) -> dict[str, str]:
    """Tag -> version. Raises SnapshotDamaged for a tag that names none."""
    found = {}
    for tag in place.names(f"{name}/tags"):
        data = b"" if tag.startswith(".") else place.read(f"{name}/tags/{tag}", TAG_BYTES)
        if not data:
            continue  # not a tag, or it was removed a moment ago
        version = data.decode("utf-8", "replace").strip()
        if not VERSION.fullmatch(version):
            raise SnapshotDamaged(f"{place}/{name}/tags/{tag} names no version: {version!r}")
        found[tag] = version
    return found


def sealed_in(place: Place, name: str, version: str) -> Sealed | None:
    """The manifest of a version, checked by its own hash; None when it is not there. Raises SnapshotDamaged."""
    path = f"{name}/{version}/{MANIFEST}"
    try:
        data = place.read(path, MANIFEST_BYTES)
        if data is None:
            return None
        manifest = parsed(data.decode("utf-8"), f"{place}/{path}")
    except (UnicodeDecodeError, RecursionError, TypeError) as error:
        raise SnapshotDamaged(f"{place}/{path} cannot be read: {error}") from error
    if (manifest.name, manifest.version) != (name, version):
        raise SnapshotDamaged(f"{place}/{path} is that of {manifest.name}@{manifest.version}")
    return Sealed(manifest, data)


def expected(manifest: Manifest, place: str) -> tuple[Expected, ...]:
    """The files of a version. Raises SnapshotDamaged for a path that is not surely one inside of its folder."""
    found = tuple(_entries(manifest))
    paths: set[str] = {MANIFEST}
    folders: set[str] = set()
    for file in found:
        pure = PurePosixPath(file.path)
        fine = str(pure) == file.path and all(_PART.fullmatch(part) and not part.startswith(".") for part in pure.parts)
        folded = file.path.casefold()  # file systems that ignore case would have one file for two
        if not fine or folded in paths:
            raise SnapshotDamaged(f"the manifest in {place} names a file {file.path!r}, which cannot be in a version")
        if not _SHA256.fullmatch(file.sha256) or (file.bytes is not None and file.bytes < 0):
            raise SnapshotDamaged(f"the manifest in {place} has no usable hash or size of {file.path}")
        paths.add(folded)
        folders |= {str(parent).casefold() for parent in pure.parents}
    if clash := sorted(paths & folders):
        raise SnapshotDamaged(f"the manifest in {place} names {clash[0]!r} as a file and as a folder")
    return found


def _entries(manifest: Manifest) -> Iterator[Expected]:
    for file in (*manifest.files, *manifest.documents):
        yield Expected(file.path, file.sha256, file.bytes)
    if manifest.card_sha256 is not None:
        yield Expected("README.md", manifest.card_sha256, None)
