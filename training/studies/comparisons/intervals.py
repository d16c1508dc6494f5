"""Means over seeds and tasks with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pipeline.pass_rates import with_width
from pipeline.quality.agreement import RESAMPLES, Mean

_TAILS = (0.025, 0.975)

BySeed = Mapping[int, tuple[float, ...]]
"""Of each seed, one number for each task, in the same order."""


def mean_over(shares: BySeed) -> Mean | None:
    """Mean of shares with its 95 % interval; None of nothing.

    A percentile bootstrap with fixed random numbers that draws seeds, and tasks. All seeds have the same tasks, so the
    tasks of one draw are the same for all of its seeds: drawn for each seed anew, they would count as more tasks than
    there are, and the interval would be too narrow. Of one seed it is over tasks alone. Where all shares are 0, or all
    are 1, it would have no width however few tasks there are: there it is the exact one of as many trials (Clopper and
    Pearson 1934). Raises ValueError for seeds with different numbers of tasks.
    """
    mean = difference_over(shares)
    certain = {share for one in shares.values() for share in one} in ({0.0}, {1.0})
    return with_width(mean, len(next(iter(shares.values())))) if mean is not None and certain else mean


def difference_over(differences: BySeed) -> Mean | None:
    """The same of differences at each seed and task, whose interval is that of the bootstrap in any case."""
    if not differences:
        return None
    table = np.array(list(differences.values()), dtype=np.float64)
    seeds, tasks = table.shape
    if not table.size:
        return None
    random = np.random.default_rng(0)
    of_tasks = random.multinomial(tasks, [1 / tasks] * tasks, size=RESAMPLES)
    of_seeds = random.multinomial(seeds, [1 / seeds] * seeds, size=RESAMPLES)
    means = np.sort(((of_seeds @ table) * of_tasks).sum(axis=1) / table.size)
    low, high = (round(float(means[round(tail * (RESAMPLES - 1))]), 3) for tail in _TAILS)
    return Mean(n=table.size, mean=round(float(table.mean()), 3), low=low, high=high)
