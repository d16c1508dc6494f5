"""The rows of a working table one at a time, for tables whose texts do not fit into memory.

Only named light columns of all rows are held; a whole row is read from its file when it is asked for. Files of a table
are never removed, so what was found stays readable while others write.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import Row, adapt, table_schema, to_rows
from pipeline.tables import DECIDING, Store, latest, readable

GROUPS_HELD = 4
"""Row groups kept for the rows that are asked for next: threads that go over a table are in neighbouring ones."""


Place = tuple[str, int, int]
"""File, row group and row."""


class RowReader:
    """Reads rows of one table at their places. Safe to use from threads; a copy in another process reads for itself."""

    def __init__(self, table: str) -> None:
        self._schema = table_schema(table)
        self._held: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[RowReader], tuple[str]]:
        return RowReader, (self._schema.name,)

    def at(self, place: Place) -> Row:
        """All columns of one row. Raises TableDamaged."""
        file, group, at = place
        return to_rows(adapt(self._schema, self._group(file, group).slice(at, 1)))[0]

    def _group(self, file: str, group: int) -> pa.Table:
        with self._lock:
            if (file, group) in self._held:
                self._held.move_to_end((file, group))
                return self._held[file, group]
            with readable(self._schema.name), pq.ParquetFile(file) as parquet:
                found = parquet.read_row_group(group)
            self._held[file, group] = found
            if len(self._held) > GROUPS_HELD:
                self._held.popitem(last=False)
            return found


class StoredRows:
    """The rows of the latest attempts of one table, as they are now. Safe to use from threads."""

    def __init__(self, store: Store, table: str, columns: Sequence[str]) -> None:
        """Holds `columns` of every row. Raises TableDamaged."""
        schema = table_schema(table)
        self.reader = RowReader(table)
        light = schema.of(list(dict.fromkeys([*columns, *DECIDING])))
        parts = [light.arrow.empty_table()]
        places: list[Place] = []
        for file in store.files(table):
            with readable(table), pq.ParquetFile(file) as parquet:
                stored = set(parquet.schema_arrow.names)
                found = parquet.read(columns=[name for name in light.arrow.names if name in stored])
                for group in range(parquet.num_row_groups):
                    places += [(file, group, row) for row in range(parquet.metadata.row_group(group).num_rows)]
            parts.append(adapt(light, found))
        rows = pa.concat_tables(parts)
        kept = latest(rows)
        self.places = [place for place, is_kept in zip(places, kept.to_pylist(), strict=True) if is_kept]
        """Where row n is, for the reader."""
        self.light = rows.filter(kept).select(list(columns))
        """The named columns; row n of it is `row(n)`."""

    def __len__(self) -> int:
        return len(self.places)

    def row(self, number: int) -> Row:
        """All columns of one row. Raises TableDamaged."""
        return self.reader.at(self.places[number])

    def rows(self) -> Iterator[Row]:
        """All of them, one in memory at a time."""
        return map(self.row, range(len(self)))
