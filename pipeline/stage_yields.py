"""What share of its items a stage keeps: of those a run worked on, beside all that came before.

A share that leaves its bounds, or that differs from the former one by more than chance explains, is for a person to
look at; it makes no row wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from pipeline.tables import Store
from pipeline.types import Record

Bounds = tuple[float, float]

_Z = 3.29
"""One in a thousand lies outside of an interval of so many standard deviations."""


class YieldsConfig(Record):
    """Least and most share of items that each table should keep. A run with fewer items than `min_items` says nothing.

    The defaults are far from what was seen, so that what leaves them is broken rather than unusual.
    """

    min_items: int = Field(default=20, gt=0)
    repositories: Bounds = (0.5, 1.0)
    """Listed repositories that could be fetched."""
    scores: Bounds = (0.02, 1.0)
    """Fetched repositories that are built."""
    image_builds: Bounds = (0.1, 1.0)
    """Kept repositories that have a usable image."""
    instances: Bounds = (0.02, 1.0)
    """Tasks that pass every gate, of those that were written."""
    ratings: Bounds = (0.5, 1.0)
    """Tasks that were to be rated and are."""
    trajectories: Bounds = (0.8, 1.0)
    """Attempts that came to an end."""
    verifications: Bounds = (0.9, 1.0)
    """Attempts with a verdict, whichever."""
    judgements: Bounds = (0.5, 1.0)
    """Attempts about which the model gave an answer that can be read."""
    curations: Bounds = (0.8, 1.0)
    """Verified attempts that could be looked through."""

    @field_validator("*")
    @classmethod
    def _ordered(cls, value: object) -> object:
        if isinstance(value, tuple) and not 0 <= value[0] <= value[1] <= 1:
            raise ValueError("give the least and the most share, both from 0 to 1")
        return value

    def of(self, table: str) -> Bounds:
        """The bounds of one table."""
        bounds: Bounds = getattr(self, table)
        return bounds


class _Kept(NamedTuple):
    """Which items of a table are kept."""

    key: str
    """Column that names an item; what several rows say of one is taken together."""
    told_by: str
    values: tuple[object, ...] | None = None
    """Of the column that tells; None for any but null."""


_KEPT: Mapping[str, _Kept] = {
    "repositories": _Kept("repository_id", "tree_sha256"),
    "scores": _Kept("item_key", "kept", (True,)),
    "image_builds": _Kept("repository_id", "smoke_ok", (True,)),
    "instances": _Kept("instance_id", "admitted", (True,)),
    "ratings": _Kept("item_key", "task_soundness"),
    "trajectories": _Kept("item_key", "trajectory_id"),
    "verifications": _Kept("item_key", "outcome", ("passed", "failed")),
    "judgements": _Kept("item_key", "outcome", ("passed", "failed")),
    "curations": _Kept("item_key", "n_turns"),
}


class Yield(Record):
    """How many of some items were kept."""

    kept: int
    total: int

    @property
    def share(self) -> float:
        return self.kept / self.total if self.total else 0.0

    def __str__(self) -> str:
        return f"{self.kept} of {self.total} ({self.share:.0%})"

    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share that these items are a sample of."""
        n, p, z = self.total, self.share, _Z
        middle = p + z * z / (2 * n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def yields(store: Store, table: str, since: datetime) -> tuple[Yield, Yield]:
    """Of the items that were recorded before `since`, and of those after it. Raises TableDamaged."""
    key, told_by, values = _KEPT[table]
    rows = store.current(table, list(dict.fromkeys([key, told_by, "recorded_at"])))
    told = rows[told_by]
    good = pc.is_valid(told) if values is None else pc.is_in(told, pa.array(values, told.type))
    items = pa.table({"key": rows[key], "kept": good, "at": rows["recorded_at"]}).filter(pc.is_valid(rows[key]))
    items = items.group_by("key").aggregate([("kept", "any"), ("at", "max")])
    new = pc.greater_equal(items["at_max"], pa.scalar(since, items["at_max"].type))
    return _of(items.filter(pc.invert(new))), _of(items.filter(new))


def _of(items: pa.Table) -> Yield:
    return Yield(kept=pc.sum(items["kept_any"]).as_py() or 0, total=items.num_rows)


def unusual(before: Yield, now: Yield, config: YieldsConfig, table: str) -> list[str]:
    """What is unusual about a run's yield, in words; empty when there is nothing, or too little, to say."""
    if now.total < config.min_items:
        return []
    faults = []
    least, most = config.of(table)
    if not least <= now.share <= most:
        faults.append(f"{now} were kept, expected are {least:.0%} to {most:.0%}")
    if before.total >= config.min_items:
        (low, high), (new_low, new_high) = before.interval(), now.interval()
        if new_high < low or new_low > high:
            faults.append(f"{now} were kept, {before} of those before")
    return faults
