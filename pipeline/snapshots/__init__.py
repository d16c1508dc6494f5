"""Published versions of a data set: plain Parquet files, a manifest and a card, written once and never changed.

    data/snapshots/NAME/v0001/  manifest.json  README.md  data/SPLIT-00000.parquet …
                                ids.parquet       id, hash and split of each row
                                excluded.parquet  verified rows that are not here, and why

Readers need nothing of ours. A version appears by one rename, complete or not at all, and only when the rows differ
from those of the latest one.

Not here: which rows are worth publishing, and the text of the card; the caller brings both.
"""

from pipeline.snapshots.manifest import FileEntry, Manifest, SnapshotDamaged, manifest_of
from pipeline.snapshots.publishing import Draft, publish
from pipeline.snapshots.reading import SnapshotVersion, batches, check, load, locate, versions

__all__ = [
    "Draft",
    "FileEntry",
    "Manifest",
    "SnapshotDamaged",
    "SnapshotVersion",
    "batches",
    "check",
    "load",
    "locate",
    "manifest_of",
    "publish",
    "versions",
]
