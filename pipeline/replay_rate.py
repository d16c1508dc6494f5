"""How many recorded verdicts hold when the commands are carried out again: a figure of the data set's quality.

Counted over the table replays, which pipeline/stages/replaying.py fills.
"""

from __future__ import annotations

from pipeline.schemas import Row, to_rows
from pipeline.tables import Store
from pipeline.types import Record


class ReplayRate(Record):
    """Over the newest replay of each attempt."""

    replayed: int
    """Attempts that were carried out again, to a verdict or to an error of the attempt's own."""
    same_verdict: int
    rate: float
    """`same_verdict` of `replayed`."""
    judged: int
    """Attempts that have a verdict, replayed or not."""
    broken: int
    """Attempts whose newest replay our machinery broke: no verdict, and not in the rate."""


def replay_rate(store: Store) -> ReplayRate | None:
    """None when nothing was replayed yet. Raises TableDamaged.

    A verdict that was given after the replay makes it one of another attempt: such replays do not count.
    """
    verdicts = {
        row["trajectory_id"]: row["outcome"]
        for row in to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
        if row["outcome"] in {"passed", "failed"}
    }
    newest = newest_replays(store)
    counted = [row for key, row in newest.items() if row["replayed"] and row["recorded"] == verdicts.get(key)]
    broken = sum(row["replayed"] is None for row in newest.values())
    if not counted and not broken:
        return None
    same = sum(row["replayed"] == row["recorded"] for row in counted)
    return ReplayRate(
        replayed=len(counted),
        same_verdict=same,
        rate=round(same / len(counted), 4) if counted else 0.0,
        judged=len(verdicts),
        broken=broken,
    )


def newest_replays(store: Store) -> dict[str, Row]:
    """The row of the newest replay of each attempt, by trajectory id."""
    rows = [row for row in to_rows(store.current("replays")) if row["trajectory_id"] is not None]
    return {str(row["trajectory_id"]): row for row in sorted(rows, key=_number)}


def _number(row: Row) -> int:
    number = row["number"]
    assert isinstance(number, int)
    return number
