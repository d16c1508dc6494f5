"""The attempts of a version one at a time: in order, or at places that are known, without holding what they say."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigurationError
from pipeline.schemas import TERMINAL, Row, adapt, to_rows
from pipeline.snapshots.keys import KEY
from pipeline.snapshots.manifest import SnapshotDamaged, manifest_of
from pipeline.snapshots.reading import file_problem, locate

GROUPS_HELD = 4
"""Row groups kept for the rows that are asked for next: threads that go over a version are in neighbouring ones."""

Place = tuple[str, int, int]
"""File, row group and row."""


class VersionAttempts:
    """The rows of one version, each an attempt. Safe to use from threads."""

    def __init__(self, root: Path, reference: str, columns: Sequence[str]) -> None:
        """Of the version below the data folder `root` that NAME, NAME@VERSION or NAME@TAG names, these columns.

        Raises ConfigurationError for one that there is not, or whose rows are no attempts; SnapshotDamaged for files
        that are not those that were published.
        """
        try:
            self._path = locate(root, reference)
        except ValueError as error:
            raise ConfigurationError(f"{error}; publish it first, or name another one") from error
        manifest = manifest_of(self._path)
        self.reference = f"{manifest.name}@{manifest.version}"
        """NAME@VERSION."""
        if manifest.key != KEY:
            raise ConfigurationError(f"a row of {self.reference} is no attempt; name the version that it was made from")
        if problems := [text for file in manifest.files if (text := file_problem(self._path, file))]:
            raise SnapshotDamaged(f"{self._path}: {'; '.join(problems)}")
        self._files = [file.path for file in manifest.files]
        self._schema = TERMINAL.of(columns)
        self._held: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[tuple[Place, Row]]:
        """All rows with their places. Raises SnapshotDamaged."""
        for name in self._files:
            for group in range(self._groups(name)):
                rows = self._read(name, group)
                for at in range(rows.num_rows):
                    yield (name, group, at), to_rows(rows.slice(at, 1))[0]

    def at(self, place: Place) -> Row:
        """One row. Raises SnapshotDamaged."""
        name, group, at = place
        with self._lock:
            held = self._held.pop((name, group), None)
            held = self._read(name, group) if held is None else held
            self._held[name, group] = held
            if len(self._held) > GROUPS_HELD:
                self._held.popitem(last=False)
        return to_rows(held.slice(at, 1))[0]

    def _groups(self, name: str) -> int:
        try:
            return int(pq.read_metadata(self._path / name).num_row_groups)
        except (OSError, pa.ArrowException) as error:
            raise SnapshotDamaged(f"{self._path}: {name} cannot be read: {error}") from error

    def _read(self, name: str, group: int) -> pa.Table:
        """A row group; columns that the version is too old for are null."""
        try:
            with pq.ParquetFile(self._path / name) as file:
                return adapt(self._schema, file.read_row_group(group, columns=self._schema.arrow.names))
        except (OSError, pa.ArrowException) as error:
            raise SnapshotDamaged(f"{self._path}: {name} cannot be read: {error}") from error
