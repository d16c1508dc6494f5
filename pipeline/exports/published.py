"""What every export of a published version starts from: its rows, one at a time, by their splits.

Not here: what a version is and where it lies (pipeline/snapshots), and what becomes of a row (account.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline.exports.tasks import NothingToExport
from pipeline.schemas import Row
from pipeline.snapshots import Manifest, SnapshotDamaged, batches, locate, manifest_of
from pipeline.snapshots.keys import KEY
from pipeline.snapshots.reading import file_problem


class PublishedVersion(NamedTuple):
    """One version on disk."""

    path: Path
    manifest: Manifest

    @property
    def reference(self) -> str:
        return f"{self.manifest.name}@{self.manifest.version}"

    @property
    def splits(self) -> tuple[str, ...]:
        """In the order of their names."""
        return tuple(sorted(self.manifest.splits))

    def chosen(self, split: str | None) -> tuple[str, ...]:
        """Only this split, or all. Raises NothingToExport for one that the version has not."""
        if split is None:
            return self.splits
        if split not in self.splits:
            raise NothingToExport(f"{self.reference} has no split {split!r}; it has {', '.join(self.splits)}")
        return (split,)


class PublishedRow(NamedTuple):
    """One row of a version."""

    split: str
    trajectory_id: str
    row: Row | None
    """None when a text in it is no valid UTF-8."""


def published(root: Path, reference: str) -> PublishedVersion:
    """The version that `NAME`, `NAME@VERSION` or `NAME@TAG` names, its data files being those that were published.

    Raises NothingToExport, also for a version whose rows are no attempts, and SnapshotDamaged.
    """
    try:
        path = locate(root, reference)
    except ValueError as error:
        raise NothingToExport(str(error)) from error
    manifest = manifest_of(path)
    if manifest.key != KEY:
        made_from = f", such as {' or '.join(manifest.parents)}" if manifest.parents else ""
        raise NothingToExport(
            f"a row of {manifest.name}@{manifest.version} is no attempt (it is named by {', '.join(manifest.key)}) "
            f"and has no conversation: trainers read its Parquet files as they are; exports take attempts{made_from}"
        )
    if problems := [text for file in manifest.files if (text := file_problem(path, file))]:
        raise SnapshotDamaged(f"{path}: {'; '.join(problems)}")
    return PublishedVersion(path, manifest)


def rows_of(version: PublishedVersion, columns: Sequence[str], split: str) -> Iterator[PublishedRow]:
    """The rows of a split in the order of its files; columns that the version is too old for are missing.

    Raises SnapshotDamaged.
    """
    for batch in batches(version.path, ["trajectory_id", *columns], split):
        try:
            rows = batch.to_pylist()
        except UnicodeDecodeError:
            rows = [_decoded(batch.slice(at, 1)) for at in range(batch.num_rows)]
        ids = batch.column("trajectory_id").to_pylist()
        yield from (PublishedRow(split, str(identity), row) for identity, row in zip(ids, rows, strict=True))


def _decoded(batch: pa.RecordBatch) -> Row | None:
    try:
        rows: list[Row] = batch.to_pylist()
    except UnicodeDecodeError:
        return None
    return rows[0]
