"""What the files of a version say, counted by DuckDB over the columns that are needed and no others.

No text column of any length is read, so memory does not grow with the texts. Columns that are not there give no figure.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from pipeline.snapshots.publishing import Draft
from pipeline.snapshots.writing import ONE_SPLIT

COUNTED = ("domain", "language", "license", "difficulty", "family", "generator", "source", "stop_reason", "interface")
MEASURED = ("n_turns", "n_tokens")
DISTINCT = {"repositories": ("repository_id",), "tasks": ("instance_id",), "families": ("domain", "family")}
"""Things that are counted once each, with the columns that name them together."""
_EACH = 20
"""Numbers lie this near to each other at most where each has a bin of its own."""
_NARROW = 4
"""Largest number by the smallest one up to which bins are equally wide."""
_EQUAL = 10
_STEPS = (1, 2, 5)
_MEMORY = "1GB"


@dataclass(frozen=True)
class Bin:
    """Rows whose number is from `low` to `high`, both included."""

    low: int
    high: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


@dataclass(frozen=True)
class Spread:
    """How a number is spread over the rows that have one above 0."""

    rows: int
    without: int
    """Rows with 0 or nothing."""
    total: int
    least: int
    median: int
    mean: float
    p90: int
    p99: int
    most: int
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class SplitFigures:
    name: str
    rows: int
    distinct: Mapping[str, int]
    """By the names of DISTINCT."""


@dataclass(frozen=True)
class Scrubbed:
    rows: int
    """With a placeholder."""
    places: int


@dataclass(frozen=True)
class Figures:
    rows: int
    distinct: Mapping[str, int]
    splits: tuple[SplitFigures, ...]
    counts: Mapping[str, tuple[tuple[str | None, int], ...]]
    """By column: values with their rows, most first."""
    policies: tuple[tuple[str | None, str | None, int], ...]
    """(agent, model, rows), most rows first."""
    spreads: Mapping[str, Spread]
    scrubbed: Scrubbed | None
    flagged: int | None
    """Rows with a flag that limits how far the verdict may be trusted."""
    excluded: Mapping[str, int]
    """Verified rows that are not here, by the step that left them out."""


def figures_of(draft: Draft) -> Figures:
    """Count the rows of a version that is being written."""
    present = frozenset(draft.schema.names)
    # DuckDB takes a path for a pattern.
    files = [glob.escape(str(draft.folder / file.path)) for file in draft.files]
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{_MEMORY}'; SET threads = 2; SET enable_progress_bar = false")
        connection.from_parquet(files, hive_partitioning=False).create_view("rows")
        return Figures(
            rows=draft.rows,
            distinct=_distinct(connection, present)[0][1] if draft.rows else {},
            splits=_splits(connection, draft, present),
            counts={name: _counts(connection, name) for name in COUNTED if name in present},
            policies=_policies(connection) if {"agent", "model"} <= present else (),
            spreads={
                name: spread
                for name in MEASURED
                if name in present and (spread := _spread(connection, name)) is not None
            },
            scrubbed=_scrubbed(connection) if "scrubbed" in present else None,
            flagged=_number(connection, "SELECT count(*) FROM rows WHERE len(integrity) > 0")
            if "integrity" in present
            else None,
            excluded=_excluded(connection, draft),
        )


def _distinct(
    connection: duckdb.DuckDBPyConnection, present: frozenset[str], by: str = "NULL"
) -> list[tuple[str | None, dict[str, int], int]]:
    """(split, count of each thing, rows), sorted by split."""
    names = [name for name, columns in DISTINCT.items() if set(columns) <= present]
    counts = "".join(f", count(DISTINCT ({', '.join(DISTINCT[name])}))" for name in names)
    found = connection.execute(f"SELECT {by}, count(*){counts} FROM rows GROUP BY 1 ORDER BY 1").fetchall()
    return [(split, dict(zip(names, numbers, strict=True)), rows) for split, rows, *numbers in found]


def _splits(connection: duckdb.DuckDBPyConnection, draft: Draft, present: frozenset[str]) -> tuple[SplitFigures, ...]:
    if "split" in present:
        found = _distinct(connection, present, f"coalesce(split, '{ONE_SPLIT}')")
        return tuple(SplitFigures(str(name), rows, distinct) for name, distinct, rows in found)
    rows: dict[str, int] = {}
    for file in draft.files:
        rows[file.split or ONE_SPLIT] = rows.get(file.split or ONE_SPLIT, 0) + (file.rows or 0)
    return tuple(SplitFigures(name, rows[name], {}) for name in sorted(rows))


def _counts(connection: duckdb.DuckDBPyConnection, column: str) -> tuple[tuple[str | None, int], ...]:
    query = f'SELECT "{column}"::VARCHAR AS value, count(*) AS n FROM rows GROUP BY 1 ORDER BY n DESC, value NULLS LAST'
    return tuple((value, n) for value, n in connection.execute(query).fetchall())


def _policies(connection: duckdb.DuckDBPyConnection) -> tuple[tuple[str | None, str | None, int], ...]:
    query = "SELECT agent, model, count(*) AS n FROM rows GROUP BY 1, 2 ORDER BY n DESC, agent, model NULLS FIRST"
    return tuple((agent, model, n) for agent, model, n in connection.execute(query).fetchall())


def _spread(connection: duckdb.DuckDBPyConnection, column: str) -> Spread | None:
    """None where no row has such a number."""
    # A result that is not read to its end would keep the connection.
    [(rows, total, least, quantiles, mean, most)] = connection.execute(
        f"SELECT count(*), sum(n)::BIGINT, min(n), quantile_disc(n, [0.5, 0.9, 0.99]), avg(n), max(n) "
        f'FROM (SELECT "{column}" AS n FROM rows) WHERE n > 0'
    ).fetchall()
    if not rows:
        return None
    median, p90, p99 = quantiles
    edges = bin_edges(least, most)
    sums = ", ".join(f"count(*) FILTER (n BETWEEN {low} AND {high})" for low, high in edges)
    [counts] = connection.execute(f'SELECT {sums} FROM (SELECT "{column}" AS n FROM rows)').fetchall()
    bins = tuple(Bin(low, high, n) for (low, high), n in zip(edges, counts, strict=True))
    all_rows = _number(connection, "SELECT count(*) FROM rows")
    return Spread(rows, all_rows - rows, total, least, median, mean, p90, p99, most, bins)


def bin_edges(least: int, most: int) -> list[tuple[int, int]]:
    """Bins from `least` to `most`, both above 0: one for each number, equal ones, or ends at 1, 2, 5, 10, 20, 50 …"""
    if most - least <= _EACH:
        return [(number, number) for number in range(least, most + 1)]
    if most <= _NARROW * least:
        width = -(-(most - least + 1) // _EQUAL)
        return [(low, low + width - 1) for low in range(least, most + 1, width)]
    ends = [step * 10**power for power in range(len(str(most)) + 1) for step in _STEPS]
    highs = [end for end in ends if end >= least]
    highs = highs[: next(place for place, end in enumerate(highs) if end >= most) + 1]
    below = max((end for end in ends if end < least), default=0)
    return [(low + 1, high) for low, high in zip([below, *highs], highs, strict=False)]


def _scrubbed(connection: duckdb.DuckDBPyConnection) -> Scrubbed:
    query = "SELECT count(*) FILTER (scrubbed > 0), coalesce(sum(scrubbed), 0)::BIGINT FROM rows"
    [(rows, places)] = connection.execute(query).fetchall()
    return Scrubbed(rows, places)


def _excluded(connection: duckdb.DuckDBPyConnection, draft: Draft) -> dict[str, int]:
    place = draft.folder / "excluded.parquet"
    if not place.is_file():
        return {}
    connection.from_parquet(glob.escape(str(place)), hive_partitioning=False).create_view("excluded")
    query = "SELECT coalesce(step, 'not known'), count(*) FROM excluded GROUP BY 1 ORDER BY 1"
    return dict(connection.execute(query).fetchall())


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    [(number,)] = connection.execute(query).fetchall()
    assert isinstance(number, int)
    return number
