"""How much of what a stage settled came out good, by day, stream, language, domain and agent: what its asset shows.

Counted from a few columns of the working tables; the tables' texts are never read. What is drawn of it is in assets.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from pipeline.batch import UNKNOWN
from pipeline.tables import Store
from pipeline.types import Record


class Share(Record):
    """Items, and how many of them are good."""

    items: int
    good: int
    rate: float
    """`good` of `items`."""


class Breakdown(Record):
    """Of one table, over the latest attempt of each item."""

    good: str
    """What a good item is called, e.g. `passed`."""
    by_day: dict[datetime.date, Share]
    """By the day in UTC on which it was settled, oldest first."""
    by_part: dict[str, dict[str, Share]]
    """`stream`, `language`, `domain`, `agent` -> its name -> what is of it; only the parts that the table has."""


@dataclass(frozen=True)
class _Counted:
    item: str
    """Column whose different values are the items; rows without one are none."""
    good: str
    test: str
    """SQL over the columns, true for a good item."""
    columns: tuple[str, ...]
    parts: Mapping[str, str]
    """Name of a part -> SQL over the columns of `rows` and of what is joined."""
    join: str = ""


_NO_FAILURE = "rows.failure_class IS NULL"
_BY_STREAM = {"stream": "listings.stream"}
_LISTED = "LEFT JOIN listings USING (repository_id)"
_OF_TASK = {"language": "tasks.language", "domain": "tasks.domain"}
_TASKS = "LEFT JOIN tasks USING (instance_id)"

_TABLES = {
    "repositories": _Counted("repository_id", "fetched", _NO_FAILURE, ("failure_class",), _BY_STREAM, _LISTED),
    "scores": _Counted("repository_id", "kept", "rows.kept", ("kept",), _BY_STREAM, _LISTED),
    "image_builds": _Counted("repository_id", "usable", "rows.smoke_ok", ("smoke_ok",), {}),
    "instances": _Counted("instance_id", "through all gates", "rows.admitted", ("admitted",), {}),
    "ratings": _Counted("instance_id", "rated", _NO_FAILURE, ("failure_class",), _OF_TASK, _TASKS),
    "trajectories": _Counted(
        "item_key",
        "handed in",
        "rows.stop_reason = 'submitted'",
        ("instance_id", "agent", "stop_reason"),
        {"agent": "rows.agent"} | _OF_TASK,
        _TASKS,
    ),
    "verifications": _Counted(
        "trajectory_id",
        "passed",
        "rows.outcome = 'passed'",
        ("outcome",),
        {"agent": "attempts.agent"} | _OF_TASK,
        f"LEFT JOIN attempts USING (trajectory_id) {_TASKS}",
    ),
    "judgements": _Counted("item_key", "passed", "rows.outcome = 'passed'", ("outcome",), {}),
    "curations": _Counted("trajectory_id", "scrubbed", "rows.unscrubbable IS NULL", ("unscrubbable",), {}),
}
_JOINED = {
    "listings": ("listings", ("repository_id", "stream")),
    "tasks": ("instances", ("instance_id", "language", "domain")),
    "attempts": ("trajectories", ("trajectory_id", "instance_id", "agent")),
}


def breakdown(store: Store, table: str) -> Breakdown:
    """Count what the table holds now. Raises KeyError for a table that no stage fills for an asset."""
    counted = _TABLES[table]
    columns = dict.fromkeys([counted.item, *counted.columns, "recorded_at"])
    with duckdb.connect() as connection:
        connection.register("rows", _by_date(store.current(table, list(columns))))
        for name, (joined, wanted) in _JOINED.items():
            if f"JOIN {name} " in counted.join:
                connection.register(f"all_{name}", store.current(joined, list(wanted)))
                connection.execute(f"CREATE VIEW {name} AS SELECT DISTINCT ON ({wanted[0]}) * FROM all_{name}")
        return Breakdown(
            good=counted.good,
            by_day=dict(sorted(_shares(connection, counted, "rows.day").items())),
            by_part={
                name: {str(part or UNKNOWN): share for part, share in _shares(connection, counted, column).items()}
                for name, column in counted.parts.items()
            },
        )


def _by_date(rows: pa.Table) -> pa.Table:
    """With the day in place of the time: the database would need an extension for times with a zone."""
    place = rows.schema.get_field_index("recorded_at")
    return rows.set_column(place, "day", rows.column("recorded_at").cast(pa.timestamp("us")).cast(pa.date32()))


def _shares(connection: duckdb.DuckDBPyConnection, counted: _Counted, part: str) -> dict[datetime.date, Share]:
    """By the values of a column, most items first."""
    found = connection.execute(
        f"""SELECT {part}, count(DISTINCT rows.{counted.item}) AS items,
                   count(DISTINCT rows.{counted.item}) FILTER ({counted.test}) AS good
            FROM rows {counted.join} WHERE rows.{counted.item} IS NOT NULL GROUP BY 1 ORDER BY items DESC, 1"""
    ).fetchall()
    return {name: Share(items=items, good=good, rate=round(good / items, 4)) for name, items, good in found}
