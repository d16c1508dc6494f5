"""Removes old versions: untagged ones that are not among the newest, and from which no kept version was made.

What is left of a version is its manifest, removed/vNNNN.json, by which its number is never given again. Who reads a
version at that moment keeps the files that are open and misses the others.

Not here: unfinished folders of publishers that were killed, which the next publisher or `touchstone gc` removes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from pipeline.disk import sync
from pipeline.snapshots.listing import names
from pipeline.snapshots.manifest import MANIFEST, Manifest, manifest_of
from pipeline.snapshots.publishing import REMOVED, UNFINISHED, remove_version
from pipeline.snapshots.reading import SnapshotVersion, folder_of, tags_of, versions
from pipeline.snapshots.tags import naming
from pipeline.types import Record


class RetentionConfig(Record):
    """Which versions the nightly run removes after it has published."""

    keep: int = Field(default=0, ge=0)
    """Newest versions that stay in any case; 0 removes nothing at all."""


@dataclass(frozen=True)
class Fate:
    """What becomes of one version."""

    version: str
    kept_as: str | None
    """Why it stays; None when it goes."""
    bytes: int


def retain(root: Path, name: str, keep: int, *, dry_run: bool = False) -> list[Fate]:
    """Remove what needs not be kept of a name, oldest first; the fate of each version, in the order of versions.

    Stays: the newest `keep`, at least one, tagged versions, and the parents of whatever stays below this data folder,
    of other names too. A kill leaves each version whole, or gone with its manifest in removed/.
    Raises SnapshotDamaged for a manifest that cannot be read: who knows which parents it names.
    """
    if keep < 1:
        raise ValueError("at least one version is kept")
    with contextlib.ExitStack() as locks:
        for one in sorted({*names(root), name}):
            locks.enter_context(naming(root, one))
        present = versions(root, name)
        reasons = _kept(root, name, present, keep)
        fates = [Fate(one.version, reasons.get(one.version), _size(one.path)) for one in present]
        if not dry_run:
            for fate in fates:
                if fate.kept_as is None:
                    _remove(folder_of(root, name), fate.version)
    return fates


def _kept(root: Path, name: str, present: Sequence[SnapshotVersion], keep: int) -> Mapping[str, str]:
    """Version -> why it stays."""
    reasons = {one.version: f"one of the newest {keep}" for one in present[-keep:]}
    for tag, version in tags_of(root, name).items():
        reasons[version] = f"tagged {tag}"
    manifests: dict[str, Manifest] = {
        f"{other}@{one.version}": manifest_of(one.path) for other in names(root) for one in versions(root, other)
    }
    # Of other names all stay: only their own retention removes them.
    kept = [reference for reference in manifests if _name(reference) != name or _version(reference) in reasons]
    while kept:
        child = kept.pop()
        for parent in (text.replace("/", "@", 1) for text in manifests[child].parents):
            if parent in manifests and _name(parent) == name and _version(parent) not in reasons:
                reasons[_version(parent)] = f"parent of {child}"
                kept.append(parent)
    return reasons


def _name(reference: str) -> str:
    return reference.partition("@")[0]


def _version(reference: str) -> str:
    return reference.partition("@")[2]


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _remove(folder: Path, version: str) -> None:
    """The manifest is safe before the version stops being one, and it stops being one before the first file goes."""
    tombstone = folder / REMOVED / f"{version}.json"
    tombstone.parent.mkdir(exist_ok=True)
    part = tombstone.with_name(f".{version}.json")
    part.unlink(missing_ok=True)  # a killed removal left it, perhaps without the permission to write
    shutil.copyfile(folder / version / MANIFEST, part)
    sync(part)
    part.replace(tombstone)
    sync(tombstone.parent)
    sync(folder)
    leaving = folder / f"{UNFINISHED}removed-{version}"
    (folder / version).rename(leaving)
    sync(folder)
    remove_version(leaving)
