"""The working tables: Delta tables that only grow, one row per item and attempt, written exactly once.

A write carries (app_id, sequence) in its Delta commit, so repeating it after a kill changes nothing. Old files are
never vacuumed, for a reader or a published version may still name them.

Not here: which items are done (journal.py), what the columns are (schemas.py), published versions (snapshots.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from pipeline.disk import sync
from pipeline.errors import ConfigurationError, PipelineError
from pipeline.schemas import RowInvalid, TableSchema, adapt, table_schema, to_arrow
from sandbox.locks import exclusive

SMALL_FILES = 64
"""More files below the target size than this are merged."""
TARGET_BYTES = 64 * 1024 * 1024

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
            write_deltalake(
                str(path),
                data,
                mode="append",
                schema_mode="merge",
                writer_properties=_properties(schema),
                commit_properties=CommitProperties(app_transactions=[Transaction(app_id, sequence)]),
            )
            _sync_last_commit(path)
            self._compact(schema, path)
        return True

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of all attempts, in no particular order; no rows when the table is not there yet.

        Only these columns where some are named, in that order. Raises TableDamaged.
        """
        schema = table_schema(table).of(columns)
        delta = self._open(table)
        if delta is None:
            return schema.arrow.empty_table()
        with readable(table):
            stored = {field.name for field in delta.schema().fields}
            wanted = None if columns is None else [name for name in schema.arrow.names if name in stored]
            return adapt(schema, delta.to_pyarrow_table(columns=wanted))

    def keys(self, table: str) -> set[str]:
        """The keys of all items that have rows here. Raises TableDamaged."""
        delta = self._open(table)
        if delta is None:
            return set()
        with readable(table):
            return set(delta.to_pyarrow_table(columns=["item_key"]).column("item_key").to_pylist())

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

    def _compact(self, schema: TableSchema, path: Path) -> None:
        """Merge small files, of which every flush adds one. The caller holds the lock."""
        delta = DeltaTable(str(path))
        sizes = pa.table(delta.get_add_actions()).column("size_bytes").to_pylist()
        if sum(size < TARGET_BYTES for size in sizes) > SMALL_FILES:
            delta.optimize.compact(target_size=TARGET_BYTES, writer_properties=_properties(schema))
            _sync_last_commit(path)


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


def _sync_last_commit(path: Path) -> None:
    """Put the newest commit on disk: the writer itself only hands it to the page cache."""
    log = path / "_delta_log"
    commit = log / f"{DeltaTable(str(path)).version():020d}.json"
    if not commit.is_file():
        raise RowInvalid(f"table {path.name}: commit {commit.name} is missing right after it was written")
    # Not splitlines(): statistics quote values of the rows, and those may hold U+2028.
    added = [json.loads(line).get("add") for line in commit.read_text().split("\n") if line]
    names = [path / action["path"] for action in added if action]
    for place in (*names, path, commit, log):
        sync(place)
