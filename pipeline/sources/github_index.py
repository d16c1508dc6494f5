"""What the crawl knows, in one SQLite file: every repository that search named, and how far the crawl has come.

The repositories of a slice and the mark that it is done are one transaction, so a crawl that is killed anywhere goes on
without a hole, and a slice that is read again changes nothing. Rows are keyed on the hub's own id, which outlives a
change of name. Not here: what is asked (github_search.py, github_pins.py), and the tables of the pipeline.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

from pipeline.errors import ConfigurationError
from pipeline.sources.github_metadata import Found, metadata_score
from pipeline.types import Language

_VERSION = 1

_LAYOUT = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS slices (
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, language TEXT NOT NULL, field TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, size_low INTEGER NOT NULL, size_high INTEGER,
    state TEXT NOT NULL DEFAULT 'open', total INTEGER, missing INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS open_slices ON slices (id) WHERE state = 'open';
CREATE TABLE IF NOT EXISTS repositories (
    id INTEGER PRIMARY KEY, node_id TEXT NOT NULL, searched_name TEXT NOT NULL, clone_url TEXT NOT NULL,
    language TEXT NOT NULL, created_at TEXT NOT NULL, pushed_at TEXT NOT NULL, size_kb INTEGER NOT NULL,
    stars INTEGER NOT NULL, license TEXT, default_branch TEXT NOT NULL, state TEXT NOT NULL, score REAL NOT NULL,
    round INTEGER NOT NULL,
    commit_id TEXT, name TEXT, pinned_push TEXT, execution_files TEXT);
CREATE INDEX IF NOT EXISTS best ON repositories (language, score DESC, id) WHERE commit_id IS NULL;
CREATE INDEX IF NOT EXISTS pinned ON repositories (id) WHERE commit_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS answers (path TEXT PRIMARY KEY, etag TEXT NOT NULL, body TEXT NOT NULL);
"""

_UPSERT = """
INSERT INTO repositories
    (id, node_id, searched_name, clone_url, language, created_at, pushed_at, size_kb, stars, license, default_branch,
     state, score, round)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    node_id = excluded.node_id, searched_name = excluded.searched_name, clone_url = excluded.clone_url,
    language = excluded.language, pushed_at = excluded.pushed_at, size_kb = excluded.size_kb, stars = excluded.stars,
    license = excluded.license, default_branch = excluded.default_branch, state = excluded.state,
    score = excluded.score, round = excluded.round
"""


@dataclass(frozen=True, slots=True)
class Slice:
    """One question to search: a language, a range of time, and where that is not enough a range of sizes."""

    id: int
    round: int
    """0 for the crawl, 1, 2 … for what was pushed since."""
    language: Language
    field: Literal["created", "pushed"]
    first: int
    """Seconds since 1970, both ends included."""
    last: int
    size_low: int = 0
    size_high: int | None = None
    """KB, included; None for no end."""


@dataclass(frozen=True, slots=True)
class Named:
    """What search calls a repository."""

    id: int
    full_name: str
    pushed_at: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a repository that has a commit to be fetched."""

    id: int
    full_name: str
    searched_name: str
    clone_url: str
    language: Language
    size_kb: int
    state: str
    commit: str


@dataclass(frozen=True, slots=True)
class Pin:
    """What is kept of a repository at one commit. None leaves what is known."""

    id: int
    commit: str
    name: str | None = None
    clone_url: str | None = None
    state: str | None = None
    execution_files: str | None = None
    """A JSON list of names."""


class CrawlIndex:
    """The index of one hub. Safe to use from threads; one process at a time writes to it."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError when other code's layout is found."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            self._connection.close()
            raise ConfigurationError(
                f"{path} has layout {version}, this code knows {_VERSION}; remove it to crawl anew"
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A power cut may cost the last transactions as a whole, which are then asked for again.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_LAYOUT)
        self._connection.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _rows(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()

    # The crawl -----------------------------------------------------------------------------------------------------

    def fact(self, name: str) -> str | None:
        """A fact about the crawl as a whole."""
        rows = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return str(rows[0][0]) if rows else None

    def plan(self, slices: Iterable[Slice], facts: Mapping[str, str]) -> None:
        """A round in place of all slices there were, and the facts that belong to it."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM slices")
            self._insert(connection, slices)
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def state_facts(self, facts: Mapping[str, str]) -> None:
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def open_slices(self, limit: int) -> list[Slice]:
        """The next ones."""
        columns = "id, round, language, field, first, last, size_low, size_high"
        rows = self._rows(f"SELECT {columns} FROM slices WHERE state = 'open' ORDER BY id LIMIT ?", limit)
        return [Slice(*row) for row in rows]  # type: ignore[arg-type]  # the layout above has these types

    def split(self, one: Slice, parts: Iterable[Slice]) -> None:
        """Smaller questions in place of one."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM slices WHERE id = ?", (one.id,))
            self._insert(connection, parts)

    def finish(self, one: Slice, repositories: Sequence[Found], *, missing: int) -> None:
        """The answer to a question, and that it is done; `missing` of them could not be had."""
        with self._transaction() as connection:
            connection.executemany(_UPSERT, [_values(found, one.round) for found in repositories])
            connection.execute(
                "UPDATE slices SET state = 'done', total = ?, missing = ? WHERE id = ?",
                (len(repositories) + missing, missing, one.id),
            )

    @staticmethod
    def _insert(connection: sqlite3.Connection, slices: Iterable[Slice]) -> None:
        connection.executemany(
            "INSERT INTO slices (round, language, field, first, last, size_low, size_high) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(s.round, s.language, s.field, s.first, s.last, s.size_low, s.size_high) for s in slices],
        )

    def progress(self) -> dict[str, int]:
        """Counts: repositories, pinned ones, slices done and open, results that no slice could reach."""
        done, still_open, missing = self._rows(
            "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state = 'open'), "
            "coalesce(sum(missing), 0) FROM slices"
        )[0]
        repositories, pinned = self._rows("SELECT count(*), count(commit_id) FROM repositories")[0]
        names = ("repositories", "pinned", "slices_done", "slices_open", "missing")
        values = (repositories, pinned, done, still_open, missing)
        return {name: cast("int", value) for name, value in zip(names, values, strict=True)}

    def counts(self, column: Literal["language", "state"]) -> dict[str, tuple[int, int]]:
        """Repositories and pinned ones, by what a column says."""
        rows = self._rows(
            f"SELECT {column}, count(*), count(commit_id) FROM repositories GROUP BY 1 ORDER BY 2 DESC, 1"
        )
        return {str(name): (cast("int", found), cast("int", pinned)) for name, found, pinned in rows}

    def up_to_date(self) -> str | None:
        """The hub's time until which everything is known; None while the first round lasts."""
        if self.fact("complete") == "yes":
            return _stamp(int(self.fact("until") or 0))
        before = self.fact("before")
        return None if before is None else _stamp(int(before))

    def repositories(self) -> Iterator[Named]:
        """All that search named, in the order of their ids."""
        last = 0
        while True:
            rows = self._rows(
                "SELECT id, searched_name, pushed_at FROM repositories WHERE id > ? ORDER BY id LIMIT 1000", last
            )
            for row in rows:
                yield Named(*row)  # type: ignore[arg-type]  # as the layout has them
            if len(rows) < 1000:
                return
            last = cast("int", rows[-1][0])

    # Commits -------------------------------------------------------------------------------------------------------

    def unpinned(self, language: Language, most: int) -> list[tuple[int, str]]:
        """Id and node of those to ask for a commit: the best ones up to `most` pinned of the language."""
        pinned = cast(
            "int",
            self._rows("SELECT count(*) FROM repositories WHERE commit_id IS NOT NULL AND language = ?", language)[0][
                0
            ],
        )
        rows = self._rows(
            "SELECT id, node_id FROM repositories WHERE commit_id IS NULL AND language = ? "
            "ORDER BY score DESC, id LIMIT ?",
            language,
            max(0, most - pinned),
        )
        return cast("list[tuple[int, str]]", rows)

    def outdated(self) -> list[tuple[int, str]]:
        """Id and node of those that were pushed to since their commit was asked for."""
        rows = self._rows(
            "SELECT id, node_id FROM repositories WHERE commit_id IS NOT NULL AND pinned_push <> pushed_at ORDER BY id"
        )
        return cast("list[tuple[int, str]]", rows)

    def pin(self, pins: Sequence[Pin]) -> None:
        """Keep commits. A name stays as long as its commit does: it is part of the row's id."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE repositories SET"
                " name = CASE WHEN commit_id = ?2 THEN name ELSE coalesce(?3, searched_name) END,"
                " commit_id = ?2, clone_url = coalesce(?4, clone_url), state = coalesce(?5, state),"
                " execution_files = ?6, pinned_push = pushed_at WHERE id = ?1",
                [(p.id, p.commit, p.name, p.clone_url, p.state, p.execution_files) for p in pins],
            )

    def unpin(self, repository_id: int) -> None:
        """Ask for its commit anew."""
        with self._transaction() as connection:
            connection.execute("UPDATE repositories SET commit_id = NULL WHERE id = ?", (repository_id,))

    def pinned(self, since: str | None) -> Iterator[Known]:
        """Those with a commit, in the order of their ids; only what was pushed after `since`."""
        last = 0
        while True:
            rows = self._rows(
                f"SELECT {_KNOWN} FROM repositories WHERE commit_id IS NOT NULL AND id > ? AND pushed_at > ? "
                "ORDER BY id LIMIT 1000",
                last,
                since or "",
            )
            for row in rows:
                yield Known(*row)  # type: ignore[arg-type]  # as the layout has them
            if len(rows) < 1000:
                return
            last = cast("int", rows[-1][0])

    def known(self, repository_id: int) -> Known | None:
        rows = self._rows(f"SELECT {_KNOWN} FROM repositories WHERE commit_id IS NOT NULL AND id = ?", repository_id)
        return Known(*rows[0]) if rows else None  # type: ignore[arg-type]

    # Answers that may be asked for again ---------------------------------------------------------------------------

    def answer(self, path: str) -> tuple[str, str] | None:
        """The ETag and the body of the last answer."""
        rows = self._rows("SELECT etag, body FROM answers WHERE path = ?", path)
        return (str(rows[0][0]), str(rows[0][1])) if rows else None

    def keep_answer(self, path: str, etag: str, body: str) -> None:
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (path, etag, body))


_KNOWN = "id, name, searched_name, clone_url, language, size_kb, state, commit_id"


def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(found: Found, number: int) -> tuple[object, ...]:
    return (
        found.id,
        found.node_id,
        found.full_name,
        found.clone_url,
        found.language,
        found.created_at,
        found.pushed_at,
        found.size_kb,
        found.stars,
        found.license,
        found.default_branch,
        found.state,
        metadata_score(found),
        number,
    )
