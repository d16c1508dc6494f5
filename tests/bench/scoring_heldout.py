"""What a score is worth on the half of the labels that no model has seen: the split, and the figures.

Both were fixed before the first build. Two splits, each of them half and half:

- by owner (the one that counts): an owner's rows are held out when the hash of the owner is odd;
- by time: what was changed last (commit, upload or signature of the packaging) is held out, the rest is trained on;
  rows without a date are left out, and an owner's rows on both sides are left out of the training.

At a budget of a fifth of the held-out rows, `lift` is the success rate of those with the highest scores over that of
all; the best possible is min(1 / base rate, 5). Intervals come from drawing held-out owners with replacement, the same
draws for all scores that are compared. Features and fitting are not here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

BUDGET = 0.2
DRAWS = 2000
BINS = 5


@dataclass(frozen=True)
class Row:
    """One label with what is known of its repository."""

    id: str
    owner: str
    label: bool
    language: str
    date: str | None
    n_bytes: int
    n_files: int
    features: Mapping[str, float]
    static: float
    """Score of the scorer that was there before."""


Halves = tuple[list[Row], list[Row]]
"""What is trained on, and what is held out."""


def by_owner(rows: Sequence[Row]) -> Halves:
    odd = {row.owner: hashlib.sha256(f"held out/{row.owner}".encode()).digest()[-1] % 2 for row in rows}
    return [row for row in rows if not odd[row.owner]], [row for row in rows if odd[row.owner]]


def by_time(rows: Sequence[Row]) -> Halves:
    dated = sorted((row for row in rows if row.date), key=lambda row: (row.date or "", row.id))
    held = dated[len(dated) // 2 :]
    owners = {row.owner for row in held}
    return [row for row in dated[: len(dated) // 2] if row.owner not in owners], held


def heuristics(training: Sequence[Row]) -> dict[str, Callable[[Row], float]]:
    """What the model is held against. Whether small or large ones are better, the trained half says."""
    sign = 1.0 if auc(training, lambda row: row.n_bytes) >= 0.5 else -1.0
    return {
        "size": lambda row: sign * row.n_bytes,
        "recency": lambda row: _days(row.date),
        "static": lambda row: row.static,
    }


def _days(date: str | None) -> float:
    """A date as a number; unknown ones are the oldest."""
    if date is None:
        return 0.0
    parts = [int(part) for part in date.split("-")]
    return parts[0] * 372 + (parts[1] - 1) * 31 + (parts[2] if len(parts) > 2 else 15)


def auc(rows: Sequence[Row], score: Callable[[Row], float]) -> float:
    """How often a success has a higher score than a failure; ties are half. NaN without both."""
    good = np.array([score(row) for row in rows if row.label])
    bad = np.array([score(row) for row in rows if not row.label])
    if not (len(good) and len(bad)):
        return math.nan
    return float(np.mean((good[:, None] > bad) + 0.5 * (good[:, None] == bad)))


def lift(rows: Sequence[Row], score: Callable[[Row], float], budget: float = BUDGET) -> float:
    """Success rate of the highest scores over that of all; equal scores go by a hash. NaN without a success."""
    base = sum(row.label for row in rows) / len(rows)
    order = sorted(rows, key=lambda row: (-score(row), hashlib.sha256(row.id.encode()).hexdigest()))
    first = order[: math.ceil(budget * len(rows))]
    return sum(row.label for row in first) / len(first) / base if base else math.nan


def best_lift(rows: Sequence[Row], budget: float = BUDGET) -> float:
    base = sum(row.label for row in rows) / len(rows)
    return min(1 / base, 1 / budget) if base else math.nan


def calibration(rows: Sequence[Row], score: Callable[[Row], float]) -> tuple[float, list[dict[str, float]]]:
    """Expected calibration error over bins of equal number, and the bins."""
    order = sorted(rows, key=score)
    parts = [order[len(order) * i // BINS : len(order) * (i + 1) // BINS] for i in range(BINS)]
    table = [
        {
            "n": float(len(part)),
            "said": round(sum(map(score, part)) / len(part), 4),
            "found": round(sum(row.label for row in part) / len(part), 4),
        }
        for part in parts
        if part
    ]
    return sum(one["n"] * abs(one["said"] - one["found"]) for one in table) / len(rows), table


def intervals(
    rows: Sequence[Row], model: Callable[[Row], float], others: Mapping[str, Callable[[Row], float]]
) -> dict[str, list[float]]:
    """95 % intervals: of the model's lift, of its share of the best possible, and of its lead over each other score."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.owner, []).append(row)
    owners = sorted(groups)
    random = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in ("lift", "share_of_best", "auc", *others)}
    for _ in range(DRAWS):
        drawn = [row for index in random.integers(len(owners), size=len(owners)) for row in groups[owners[index]]]
        if len({row.label for row in drawn}) < 2:
            continue
        ours = lift(drawn, model)
        found["lift"].append(ours)
        found["share_of_best"].append(ours / best_lift(drawn))
        found["auc"].append(auc(drawn, model))
        for name, other in others.items():
            found[name].append(ours - lift(drawn, other))
    return {name: [round(float(x), 3) for x in np.quantile(values, (0.025, 0.975))] for name, values in found.items()}


def figures(training: Sequence[Row], rows: Sequence[Row], model: Callable[[Row], float]) -> dict[str, object]:
    """All of a held-out half."""
    others = heuristics(training)
    error, table = calibration(rows, model)
    reached, best = lift(rows, model), best_lift(rows)
    spread = intervals(rows, model, others)
    return {
        "trained_on": len(training),
        "n": len(rows),
        "owners": len({row.owner for row in rows}),
        "base_rate": round(sum(row.label for row in rows) / len(rows), 4),
        "auc": round(auc(rows, model), 4),
        "auc_interval": spread["auc"],
        "calibration_error": round(error, 4),
        "calibration": table,
        "lift_at_20": round(reached, 4),
        "lift_interval": spread["lift"],
        "best_possible_lift": round(best, 4),
        "share_of_best": round(reached / best, 4),
        "share_of_best_interval": spread["share_of_best"],
        "vs_heuristics": {
            name: {
                "lift_at_20": round(lift(rows, other), 4),
                "auc": round(auc(rows, other), 4),
                "lead_of_the_model": round(reached - lift(rows, other), 4),
                "lead_interval": spread[name],
            }
            for name, other in others.items()
        },
        "lift_at_budgets": {str(budget): round(lift(rows, model, budget), 4) for budget in (0.1, 0.2, 0.3, 0.5)},
    }
