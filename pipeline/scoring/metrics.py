"""How well scores order and foretell: plain arithmetic over labels and scores, with bootstrap intervals.

Arrays have one entry per repository; a label is True for a success. `counts`, of shape (resamples, repositories), says
how often each is in each resample; figures over resamples are nan where there are none. Where the rows come from is in
scoring_report.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.types import Record

Labels = NDArray[np.bool_]
Floats = NDArray[np.float64]

RESAMPLES = 2000


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
    return _single(aucs(_each_once(labels), labels, scores))


def aucs(counts: Floats, labels: Labels, scores: Floats) -> Floats:
    """`auc` of each resample."""
    wins, losses = _by_score(counts * labels, scores), _by_score(counts * ~labels, scores)
    # In the order of falling scores: losses that are not passed yet are below.
    below = losses[:, ::-1].cumsum(axis=1)[:, ::-1] - losses
    pairs = wins.sum(axis=1) * losses.sum(axis=1)
    return _divided((wins * (below + 0.5 * losses)).sum(axis=1), pairs)


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


def budget_of(n: int, share: float) -> int:
    """How many builds a share of `n` pays for, at least one; 0 of nothing."""
    return min(n, max(1, math.floor(n * share + 1e-9)))


def successes_at(labels: Labels, scores: Floats, share: float) -> float:
    """Expected successes among the best `share`, where ties at the border are drawn at random."""
    return float(_successes(_each_once(labels), labels, scores, share)[0]) if len(labels) else 0.0


def lift(labels: Labels, scores: Floats, share: float) -> float | None:
    """Success rate of the best `share`, as a multiple of that of all. None without a success."""
    return _single(lifts(_each_once(labels), labels, scores, share))


def lifts(counts: Floats, labels: Labels, scores: Floats, share: float) -> Floats:
    """`lift` of each resample."""
    n = counts.sum(axis=1)
    rate = _divided((counts * labels).sum(axis=1), n)
    return _divided(_successes(counts, labels, scores, share), _budgets(n, share) * rate)


def best_lift(labels: Labels, share: float) -> float | None:
    """The lift of a scorer that knows everything: min(1 / base rate, n / k). None without a success."""
    return lift(labels, labels.astype(float), share)


def resamples(owners: Sequence[str], seed: int = 0) -> Floats:
    """Bootstrap over owners: rows of one owner are no independent evidence. Shape (RESAMPLES, rows)."""
    names = sorted(set(owners))
    of_owner = np.array([names.index(owner) for owner in owners], dtype=np.int64)
    draw = np.random.default_rng(seed)
    drawn = draw.multinomial(len(names), np.full(len(names), 1.0 / len(names)), size=RESAMPLES)
    return drawn[:, of_owner].astype(float)


def interval(value: float, figures: Floats) -> Interval:
    """The value with the percentiles of its figures over resamples."""
    found = figures[~np.isnan(figures)]
    low, high = np.percentile(found, [2.5, 97.5]) if len(found) else (value, value)
    return Interval(value=round(value, 4), low=round(float(low), 4), high=round(float(high), 4))


def entropy(names: Iterable[str]) -> float:
    """Of the distribution of the names, in bits."""
    counts = Counter(names)
    n = counts.total()
    return sum(-count / n * math.log2(count / n) for count in counts.values()) if n else 0.0


def _each_once(labels: Labels) -> Floats:
    return np.ones((1, len(labels)))


def _single(figures: Floats) -> float | None:
    return None if np.isnan(figures[0]) else float(figures[0])


def _by_score(counts: Floats, scores: Floats) -> Floats:
    """Sums over rows of one score, in the order of falling scores."""
    _, group = np.unique(-scores, return_inverse=True)
    sums = np.zeros((counts.shape[0], int(group.max(initial=-1)) + 1))
    np.add.at(sums.T, group, counts.T)
    return sums


def _budgets(n: Floats, share: float) -> Floats:
    return np.minimum(n, np.maximum(1.0, np.floor(n * share + 1e-9)))


def _successes(counts: Floats, labels: Labels, scores: Floats, share: float) -> Floats:
    rows, wins = _by_score(counts, scores), _by_score(counts * labels, scores)
    before = rows.cumsum(axis=1) - rows
    taken = np.clip(_budgets(counts.sum(axis=1), share)[:, None] - before, 0.0, rows)
    successes: Floats = np.where(rows > 0, wins * taken / np.where(rows > 0, rows, 1.0), 0.0).sum(axis=1)
    return successes


def _divided(above: Floats, below: Floats) -> Floats:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)
