"""What became of each item of each stage, in one SQLite file: durable before the next item starts.

An item and its rows are recorded in one transaction. The rows wait here as Arrow data until a flush has put them into
the working tables; a flush that was cut off is repeated under the same number, which the tables recognise.

Not here: who works on items and when (batch.py), the tables themselves (tables.py).
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa

from pipeline.errors import ConfigurationError
from pipeline.schemas import clean_text
from pipeline.types import Record
from sandbox.locks import exclusive

_VERSION = 1
WINDOW = 500
"""Wanted items that are looked up at once: what is held of them does not grow with their number."""

_LAYOUT = """
CREATE TABLE IF NOT EXISTS journal (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS items (
    stage TEXT NOT NULL, key TEXT NOT NULL, attempt INTEGER NOT NULL, failure_class TEXT, reason TEXT NOT NULL,
    started_at TEXT NOT NULL, seconds REAL NOT NULL, tables TEXT NOT NULL, PRIMARY KEY (stage, key, attempt));
CREATE INDEX IF NOT EXISTS items_by_key ON items (key);
CREATE TABLE IF NOT EXISTS pending (
    number INTEGER PRIMARY KEY, stage TEXT NOT NULL, name TEXT NOT NULL, rows BLOB NOT NULL, sequence INTEGER);
CREATE TABLE IF NOT EXISTS sequences (stage TEXT PRIMARY KEY, last INTEGER NOT NULL);
"""

_ASKED = """
CREATE TEMP TABLE IF NOT EXISTS wanted (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
CREATE TEMP TABLE IF NOT EXISTS present (key TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;
"""
"""What one connection asks about. SQLite keeps it in a file of its own that vanishes with the connection."""

_LATEST = """
items.stage = ?1 AND items.key = wanted.key AND items.attempt =
    (SELECT max(attempt) FROM items AS attempts WHERE attempts.stage = ?1 AND attempts.key = wanted.key)
"""


class Failure(Record):
    """Why an item has no result."""

    failure_class: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt at one item."""

    stage: str
    key: str
    attempt: int
    """1, 2 …"""
    failure: Failure | None
    started_at: str
    """ISO time, UTC."""
    seconds: float
    tables: tuple[str, ...]
    """Tables that have rows of this attempt."""


@dataclass(frozen=True)
class Group:
    """Rows that go into the tables together, under one number."""

    sequence: int
    tables: dict[str, pa.Table]


class Journal:
    """The journal of one data folder. Close it, or use it in a `with`; safe to use from threads and processes."""

    def __init__(self, root: Path) -> None:
        """`root` is the data folder. Raises ConfigurationError when other code's layout is found."""
        self.path = root.resolve() / "tables" / "journal.sqlite"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._thread_lock = threading.Lock()
        with exclusive(root.resolve() / "locks" / "journal.lock", "the journal"):
            self._connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise ConfigurationError(
                f"{self.path} has layout {version}, this code knows {_VERSION}: use the code that wrote it, "
                "or another data folder"
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_LAYOUT)
        self._connection.executescript(_ASKED)
        if self._connection.execute("SELECT count(*) FROM journal").fetchone()[0] == 0:
            self._connection.execute("INSERT INTO journal VALUES (?)", (uuid.uuid4().hex,))
        self._connection.execute(f"PRAGMA user_version = {_VERSION}")
        self.id: str = self._connection.execute("SELECT id FROM journal").fetchone()[0]
        """Name of this file's numbering: a new journal beside old tables starts a new one."""

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with self._thread_lock:
            self._connection.execute(begin)
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled back already
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def record(self, entry: Entry, tables: Mapping[str, pa.Table]) -> None:
        """Keep an attempt and its rows, both or neither; they are on disk when this returns."""
        failure = entry.failure
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.stage,
                    clean_text(entry.key),
                    entry.attempt,
                    failure.failure_class if failure else None,
                    clean_text(failure.reason) if failure else "",
                    entry.started_at,
                    entry.seconds,
                    json.dumps(entry.tables),
                ),
            )
            connection.executemany(
                "INSERT INTO pending (stage, name, rows) VALUES (?, ?, ?)",
                [(entry.stage, name, _packed(table)) for name, table in tables.items()],
            )

    def want(self, keys: Iterable[str]) -> int:
        """From now on the questions `wanted` and `absent` are about these items; how many different ones they are."""
        with self._transaction("BEGIN") as connection:
            connection.execute("DELETE FROM wanted")
            connection.executemany(
                "INSERT OR IGNORE INTO wanted VALUES (?, ?)", ((n, clean_text(key)) for n, key in enumerate(keys))
            )
            count: int = connection.execute("SELECT count(*) FROM wanted").fetchone()[0]
        return count

    def wanted(self, stage: str) -> Iterator[tuple[int, Entry | None]]:
        """Each wanted item once, by its place among the keys, with its last attempt or None. Recording may go on
        meanwhile; no more than WINDOW entries are in memory."""
        query = f"SELECT wanted.number, items.* FROM wanted LEFT JOIN items ON {_LATEST} "
        query += "WHERE wanted.number > ?2 ORDER BY wanted.number LIMIT ?3"
        last = -1
        while True:
            with self._thread_lock:
                found = self._connection.execute(query, (stage, last, WINDOW)).fetchall()
            if not found:
                return
            for number, *columns in found:
                yield number, None if columns[0] is None else _entry(*columns)
            last = found[-1][0]

    def absent(self, stage: str, table: str, present: Iterable[str]) -> list[str]:
        """Keys of wanted items whose last attempt has rows in that table, by this journal, and that are not present."""
        with self._transaction("BEGIN") as connection:
            connection.execute("DELETE FROM present")
            connection.executemany("INSERT OR IGNORE INTO present VALUES (?)", ((key,) for key in present))
            found = connection.execute(
                f"SELECT wanted.key FROM wanted JOIN items ON {_LATEST} WHERE wanted.key NOT IN present "
                "AND EXISTS (SELECT 1 FROM json_each(items.tables) WHERE value = ?2) ORDER BY wanted.key",
                (stage, table),
            ).fetchall()
        return [key for (key,) in found]

    def find(self, prefix: str) -> list[Entry]:
        """All attempts at items whose key starts so, of any stage, in the order they were started."""
        query = "SELECT * FROM items WHERE substr(key, 1, length(?1)) = ?1 ORDER BY started_at, stage, key, attempt"
        with self._thread_lock:
            found = self._connection.execute(query, (clean_text(prefix),)).fetchall()
        return [_entry(*columns) for columns in found]

    def groups(self, stage: str) -> Iterator[Group]:
        """What must go into the tables, oldest first: first what a cut-off flush had numbered, then the rest."""
        with self._transaction() as connection:
            waiting = connection.execute(
                "SELECT count(*) FROM pending WHERE stage = ? AND sequence IS NULL", (stage,)
            ).fetchone()[0]
            if waiting:
                connection.execute(
                    "INSERT INTO sequences VALUES (?, 1) ON CONFLICT (stage) DO UPDATE SET last = last + 1", (stage,)
                )
                connection.execute(
                    "UPDATE pending SET sequence = (SELECT last FROM sequences WHERE stage = ?1) "
                    "WHERE stage = ?1 AND sequence IS NULL",
                    (stage,),
                )
            numbers = connection.execute(
                "SELECT DISTINCT sequence FROM pending WHERE stage = ? ORDER BY sequence", (stage,)
            ).fetchall()
        for (sequence,) in numbers:
            with self._thread_lock:
                found = self._connection.execute(
                    "SELECT name, rows FROM pending WHERE stage = ? AND sequence = ? ORDER BY number", (stage, sequence)
                ).fetchall()
            parts: dict[str, list[pa.Table]] = {}
            for name, rows in found:
                parts.setdefault(name, []).append(_unpacked(rows))
            yield Group(
                sequence, {name: pa.concat_tables(part, promote_options="default") for name, part in parts.items()}
            )

    def flushed(self, stage: str, sequence: int) -> None:
        """Drop the rows of a group that is in the tables."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM pending WHERE stage = ? AND sequence = ?", (stage, sequence))

    def close(self) -> None:
        """Safe to call twice."""
        self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Span(NamedTuple):
    """When an attempt at an item was in progress."""

    key: str
    started_at: datetime
    seconds: float


def spans(root: Path, stage: str) -> list[Span]:
    """Of all attempts at the items of a stage, in the order they began. Nothing is written and no lock is taken."""
    path = root.resolve() / "tables" / "journal.sqlite"
    if not path.is_file():
        return []
    query = "SELECT key, started_at, seconds FROM items WHERE stage = ? ORDER BY started_at, key, attempt"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as connection:
        found = connection.execute(query, (stage,)).fetchall()
    return [Span(key, datetime.fromisoformat(started_at), seconds) for key, started_at, seconds in found]


def _entry(
    stage: str,
    key: str,
    attempt: int,
    failure_class: str | None,
    reason: str,
    started_at: str,
    seconds: float,
    tables: str,
) -> Entry:
    """A row of `items`."""
    failure = None if failure_class is None else Failure(failure_class=failure_class, reason=reason)
    return Entry(stage, key, attempt, failure, started_at, seconds, tuple(json.loads(tables)))


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(rows: bytes) -> pa.Table:
    return pa.ipc.open_stream(rows).read_all()
