"""How well scores order and foretell: plain arithmetic over labels and scores, with bootstrap intervals.

Arrays are of equal length, one entry per repository; a label is True for a success. Where the rows come from is in
scoring_report.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.types import Record

Labels = NDArray[np.bool_]
Floats = NDArray[np.float64]

RESAMPLES = 1000


class Interval(Record):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class CalibrationBin(Record):
    """Repositories of similar probability: what was foretold and what came."""

    n: int
    foretold: float
    came: float


def auc(labels: Labels, scores: Floats) -> float | None:
    """How likely a success has a higher score than a failure, ties counting half. None without one of both."""
    wins, losses = scores[labels], scores[~labels]
    if not len(wins) or not len(losses):
        return None
    above = (wins[:, None] > losses[None, :]).mean() + 0.5 * (wins[:, None] == losses[None, :]).mean()
    return float(above)


def calibration(labels: Labels, probabilities: Floats, bins: int = 5) -> list[CalibrationBin]:
    """Bins of (nearly) equal numbers, by rising probability."""
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [
        CalibrationBin(
            n=len(part),
            foretold=round(float(probabilities[part].mean()), 4),
            came=round(float(labels[part].mean()), 4),
        )
        for part in parts
    ]


def calibration_error(table: Sequence[CalibrationBin]) -> float | None:
    """Mean distance of what was foretold from what came, weighted by the numbers. None of nothing."""
    n = sum(one.n for one in table)
    return sum(one.n * abs(one.foretold - one.came) for one in table) / n if n else None


def successes_at(labels: Labels, scores: Floats, k: int) -> float:
    """Expected successes among the `k` best, where ties at the border are drawn at random."""
    if k <= 0:
        return 0.0
    border = np.sort(scores)[::-1][min(k, len(scores)) - 1]
    above, at = scores > border, scores == border
    places = min(k, len(scores)) - int(above.sum())
    return float(labels[above].sum() + places * labels[at].mean())


def budget_of(n: int, share: float) -> int:
    """How many builds a share of `n` pays for, at least one; 0 of nothing."""
    return min(n, max(1, math.floor(n * share + 1e-9)))


def lift(labels: Labels, scores: Floats, share: float) -> float | None:
    """Success rate of the best `share`, as a multiple of that of all. None without a success."""
    k = budget_of(len(labels), share)
    return successes_at(labels, scores, k) / k / float(labels.mean()) if k and labels.any() else None


def best_lift(labels: Labels, share: float) -> float | None:
    """The lift of a scorer that knows everything: min(1 / base rate, n / k). None without a success."""
    k = budget_of(len(labels), share)
    return min(k, int(labels.sum())) / k / float(labels.mean()) if k and labels.any() else None


def interval(
    owners: Sequence[str], figure: Callable[[NDArray[np.int64]], float | None], value: float, seed: int = 0
) -> Interval:
    """Percentile bootstrap over owners: rows of one owner are no independent evidence.

    `figure` takes the indices of a resample; those for which it is None (no success drawn) are left out.
    """
    rows: dict[str, list[int]] = {}
    for number, owner in enumerate(owners):
        rows.setdefault(owner, []).append(number)
    groups = [np.array(numbers) for numbers in rows.values()]
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        chosen = draw.integers(0, len(groups), len(groups))
        if (one := figure(np.concatenate([groups[number] for number in chosen]))) is not None:
            found.append(one)
    low, high = np.percentile(found, [2.5, 97.5]) if found else (value, value)
    return Interval(value=round(value, 4), low=round(float(low), 4), high=round(float(high), 4))


def entropy(names: Iterable[str]) -> float:
    """Of the distribution of the names, in bits."""
    counts = Counter(names)
    n = counts.total()
    return sum(-count / n * math.log2(count / n) for count in counts.values()) if n else 0.0
