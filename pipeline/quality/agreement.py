"""Means with their intervals, and how far raters agree: plain arithmetic over scores."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean

from pipeline.types import Record

RESAMPLES = 2000
FEWEST_GROUPS = 10
"""Of which a bootstrap says how far groups differ."""
_TAILS = (0.025, 0.975)
_NORMAL = 1.959964
"""Quantile of the normal distribution at the upper one."""


class Mean(Record):
    """Mean of some scores with its 95 % interval."""

    n: int
    mean: float
    low: float
    high: float


def mean_of(scores: Sequence[float]) -> Mean | None:
    """Percentile bootstrap with fixed random numbers; None of nothing."""
    if not scores:
        return None
    draw = random.Random(len(scores))
    means = sorted(fmean(draw.choices(scores, k=len(scores))) for _ in range(RESAMPLES))
    low, high = (means[round(tail * (RESAMPLES - 1))] for tail in _TAILS)
    return Mean(n=len(scores), mean=round(fmean(scores), 3), low=round(low, 3), high=round(high, 3))


def mean_of_groups(groups: Sequence[Sequence[float]]) -> Mean | None:
    """Mean of all scores of groups whose members are alike, with the interval of a bootstrap that draws whole groups.

    None for fewer than FEWEST_GROUPS, whose interval would be far too narrow. Raises ValueError for an empty group.
    """
    if len(groups) < FEWEST_GROUPS:
        return None
    parts = [(sum(group), len(group)) for group in groups]
    if not all(size for _, size in parts):
        raise ValueError("a group without scores")
    draw = random.Random(len(parts))
    drawn = (draw.choices(parts, k=len(parts)) for _ in range(RESAMPLES))
    means = sorted(sum(total for total, _ in one) / sum(size for _, size in one) for one in drawn)
    low, high = (means[round(tail * (RESAMPLES - 1))] for tail in _TAILS)
    scores = [score for group in groups for score in group]
    return Mean(n=len(scores), mean=round(fmean(scores), 3), low=round(low, 3), high=round(high, 3))


def share_of(part: int, whole: int) -> Mean | None:
    """A share with the 95 % score interval of Wilson 1927, for trials that are independent; None of nothing.

    Raises ValueError for a part that is none.
    """
    if not 0 <= part <= whole:
        raise ValueError(f"{part} of {whole}")
    if not whole:
        return None
    share, weight = part / whole, _NORMAL**2 / whole
    middle = (share + weight / 2) / (1 + weight)
    width = _NORMAL / (1 + weight) * math.sqrt(share * (1 - share) / whole + weight / (4 * whole))
    low, high = max(0.0, middle - width), min(1.0, middle + width)
    return Mean(n=whole, mean=round(share, 3), low=round(low, 3), high=round(high, 3))


def kappa(one: Sequence[int], other: Sequence[int]) -> float | None:
    """Cohen's kappa with quadratic weights (Cohen 1968) of two raters' scores of the same items, in the same order.

    1 for full agreement, 0 for as much as chance gives. None when there is nothing to tell: no items, or when both
    gave one and the same score throughout.
    """
    if len(one) != len(other):
        raise ValueError(f"{len(one)} scores beside {len(other)}")
    observed = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    expected = sum((a - b) ** 2 for a, b in itertools.product(one, other)) / max(1, len(one))
    return None if expected == 0 else round(1 - observed / expected, 3)


def mean_kappa(raters: Mapping[str, Mapping[str, int]]) -> tuple[float | None, int]:
    """Mean kappa over pairs of raters (rater -> item -> score), and the number of items that two of them share."""
    found, shared = [], set[str]()
    for one, other in itertools.combinations(sorted(raters), 2):
        both = sorted(set(raters[one]) & set(raters[other]))
        shared |= set(both)
        value = kappa([raters[one][item] for item in both], [raters[other][item] for item in both])
        if value is not None:
            found.append(value)
    return (round(fmean(found), 3) if found else None), len(shared)
