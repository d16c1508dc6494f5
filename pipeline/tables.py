"""The working tables: Delta tables that only grow, one row per item and attempt, written exactly once.

A write carries (app_id, sequence) in its Delta commit, so repeating it after a kill changes nothing. Old files are
never vacuumed, for a reader or a published version may still name them. What a write takes of memory does not depend
on how much was written before: the log has few commits since its last checkpoint, and merging stops at a file size.

Not here: which items are done (journal.py), what the columns are (schemas.py), published versions (snapshots.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from pipeline.disk import sync
from pipeline.errors import ConfigurationError, PipelineError
from pipeline.schemas import RowInvalid, TableSchema, adapt, table_schema, to_arrow
from sandbox.locks import exclusive

SMALL_FILES = 64
"""More files below half of the target size than this are merged; what merging made is mostly above that."""
TARGET_BYTES = 16 * 1024 * 1024
"""A merged file is held in memory until it is whole."""
KEYS_HELD = 1_000
LOG_PROPERTIES = {
    # Every write reads all commits since the last checkpoint.
    "delta.checkpointInterval": "10",
    # Statistics are values of rows, kept for each file; no reader of ours asks for them.
    "delta.dataSkippingNumIndexedCols": "0",
}
"""How every table keeps its log; a table that was made before gets them with its next write."""

EMPTY_ATTEMPT = "this attempt has no rows here; it supersedes an earlier one that had"
"""`reason` of the row that stands for an attempt without rows; `current` leaves it out."""

_UNUSABLE = re.compile(r"[\[\]^|\\*?\x00-\x1f]|%[0-9A-Fa-f]{2}")
"""What the Delta writer takes for a part of a URL, or DuckDB for a pattern."""


DECIDING = ("item_key", "attempt", "reason")
"""Columns by which `latest` decides."""


class TableDamaged(PipelineError):
    """Files of a table are gone or unreadable. The text names the table and the remedy."""


class Store:
    """The working tables below one data folder. Safe to use from threads and from several processes."""

    def __init__(self, root: Path) -> None:
        """Raises ConfigurationError for a folder whose name the table format cannot address."""
        self.root = root.resolve()
        if unusable := _UNUSABLE.search(str(self.root)):
            raise ConfigurationError(
                f"the data folder {self.root} has {unusable.group()!r} in its path, which the tables cannot address; "
                "choose another one in touchstone.toml or with --data"
            )

    def path(self, table: str) -> Path:
        """Folder of a table. Raises RowInvalid for an unknown name."""
        return self.root / "tables" / table_schema(table).name

    def lock(self, name: str) -> Path:
        """Lock file of that name."""
        return self.root / "locks" / f"{name}.lock"

    def append(
        self, table: str, rows: Sequence[Mapping[str, object]] | pa.Table, *, app_id: str, sequence: int
    ) -> bool:
        """Write rows once. Sequences of one `app_id` must rise; one that is not above the last is taken as written.

        Returns whether anything was written. The rows are on disk when this returns.
        Raises RowInvalid for rows that do not fit, before anything is written.
        """
        schema = table_schema(table)
        data = adapt(schema, rows) if isinstance(rows, pa.Table) else to_arrow(schema, rows)
        path = self.path(table)
        with exclusive(self.lock(f"table-{table}"), f"table {table}"):
            path.mkdir(parents=True, exist_ok=True)
            delta = self._open(table)
            last = delta.transaction_version(app_id) if delta else None
            if last is not None and last >= sequence:
                return False
            if delta and not LOG_PROPERTIES.items() <= delta.metadata().configuration.items():
                delta.alter.set_table_properties(LOG_PROPERTIES)
            write_deltalake(
                delta or str(path),
                data,
                mode="append",
                schema_mode="merge",
                configuration=LOG_PROPERTIES,
                writer_properties=_properties(schema),
                commit_properties=CommitProperties(app_transactions=[Transaction(app_id, sequence)]),
            )
            # An object that lives on would keep all commits it made.
            delta = delta or DeltaTable(str(path))
            _sync_last_commit(delta, path)
            _compact(delta, schema, path)
        return True

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of all attempts, in no particular order; no rows when the table is not there yet.

        Only these columns where some are named, in that order. Raises TableDamaged.
        """
        schema = table_schema(table).of(columns)
        return pa.concat_tables([schema.arrow.empty_table(), *self._parts(schema, columns is None)])

    def keys(self, table: str) -> Iterator[str]:
        """The keys of all rows here, as often as they have rows, without holding them all. Raises TableDamaged."""
        for file in self.files(table):
            with readable(table), pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches(KEYS_HELD, columns=["item_key"]):
                    yield from batch.column("item_key").to_pylist()

    def _parts(self, schema: TableSchema, whole: bool) -> Iterator[pa.Table]:
        """The rows of one file after the other; `whole` refuses files with columns that the schema does not have.

        Not by the table format's own reader: that one reads many files ahead.
        """
        for file in self.files(schema.name):
            with readable(schema.name), pq.ParquetFile(file) as parquet:
                stored = set(parquet.schema_arrow.names)
                found = parquet.read(None if whole else [name for name in schema.arrow.names if name in stored])
            yield adapt(schema, found)

    def current(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of the latest attempt of each item, in no particular order; only these columns where some are named.

        Name them wherever a table has texts: the steps of all trajectories need not fit into memory.
        """
        if columns is None:
            rows = self.read(table)
            return rows.filter(latest(rows))
        rows = self.read(table, list(dict.fromkeys([*columns, *DECIDING])))
        return rows.filter(latest(rows)).select(list(columns))

    def files(self, table: str) -> list[str]:
        """Paths of the Parquet files of all rows, for DuckDB or any other reader; empty when there is no table yet.

        Files of an older version of the schema lack columns: read them with `union_by_name`.
        """
        delta = self._open(table)
        if delta is None:
            return []
        names = pa.table(delta.get_add_actions()).column("path").to_pylist()
        return sorted(str(self.path(table) / name) for name in names)

    def _open(self, table: str) -> DeltaTable | None:
        path = self.path(table)
        with readable(table):
            return DeltaTable(str(path)) if DeltaTable.is_deltatable(str(path)) else None


def latest(rows: pa.Table) -> pa.Array:
    """Which of all rows of a table belong to the latest attempt of their item, by the columns DECIDING."""
    keys, attempts, reasons = (rows.column(name).to_pylist() for name in DECIDING)
    last: dict[str | None, int] = {}
    for key, attempt in zip(keys, attempts, strict=True):
        last[key] = max(attempt or 0, last.get(key, 0))
    kept = [
        (attempt or 0) == last[key] and reason != EMPTY_ATTEMPT
        for key, attempt, reason in zip(keys, attempts, reasons, strict=True)
    ]
    return pa.array(kept, type=pa.bool_())


@contextmanager
def readable(table: str) -> Iterator[None]:
    """What the reader says of files that are gone or unreadable becomes TableDamaged."""
    try:
        yield
    except (OSError, DeltaError, pa.ArrowException) as error:
        fault = str(error).partition("\n")[0]
        remedy = "put its files back, or start over in another data folder (--data)"
        raise TableDamaged(f"table {table} cannot be read ({fault}); {remedy}") from error


def _properties(schema: TableSchema) -> WriterProperties:
    return WriterProperties(compression="ZSTD", max_row_group_size=schema.rows_per_group)


def _compact(delta: DeltaTable, schema: TableSchema, path: Path) -> None:
    """Merge small files, of which every flush adds one. The caller holds the lock."""
    sizes = pa.table(delta.get_add_actions()).column("size_bytes").to_pylist()
    if sum(size < TARGET_BYTES // 2 for size in sizes) > SMALL_FILES:
        delta.optimize.compact(target_size=TARGET_BYTES, writer_properties=_properties(schema))
        _sync_last_commit(delta, path)


def _sync_last_commit(delta: DeltaTable, path: Path) -> None:
    """Put the newest commit on disk: the writer itself only hands it to the page cache."""
    log = path / "_delta_log"
    commit = log / f"{delta.version():020d}.json"
    if not commit.is_file():
        raise RowInvalid(f"table {path.name}: commit {commit.name} is missing right after it was written")
    added = [json.loads(line).get("add") for line in commit.read_text().split("\n") if line]
    names = [path / action["path"] for action in added if action]
    checkpoint = [place for place in (commit.with_suffix(".checkpoint.parquet"),) if place.is_file()]
    for place in (*names, *checkpoint, path, commit, log):
        sync(place)
