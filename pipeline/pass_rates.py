"""pass@k with intervals: plain arithmetic over how often each instance was attempted and how often that passed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from typing import NamedTuple

from pipeline.quality.agreement import Mean, mean_of, mean_of_groups
from pipeline.types import Record

_OUTSIDE = 0.05
"""Share that an interval leaves out, half of it on either side."""


class Tally(NamedTuple):
    """The attempts of one policy at one instance."""

    attempts: int
    """Attempts that were to be made and were begun, those without a verdict included."""
    judged: int
    """… that have a verdict."""
    passed: int


class PassRates(Record):
    """Of one policy over some instances."""

    instances: int
    """Instances with an attempt that has a verdict."""
    samples: int
    """Attempts that have a verdict."""
    passed: int
    """… that passed."""
    pass_at_1: float | None
    """Mean over instances of the chance that one attempt passes; None when no instance can be counted."""
    pass_at_4: float | None
    """… that at least one of four attempts passes."""
    intervals: dict[str, tuple[float, float]]
    """95 % interval of `pass_at_1` and of `pass_at_4`, where there is one."""
    left_out: dict[str, int]
    """Instances that are not in `pass_at_1` and `pass_at_4`, since they have fewer samples than 1 and 4."""
    stopped: int
    """Instances that are in neither, since they were solved often enough to be sampled no further: how often they
    would have passed is not known, and without them both figures are too low."""


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """The chance that at least one of `k` attempts passes, estimated without bias from `samples` >= k attempts.

    1 - C(n - c, k) / C(n, k), equation 1 of Chen et al. 2021, Evaluating Large Language Models Trained on Code.
    Raises ValueError for fewer samples than k.
    """
    if not 0 <= passed <= samples or not 1 <= k <= samples:
        raise ValueError(f"{passed} passed of {samples} samples say nothing of {k}")
    return 1.0 - comb(samples - passed, k) / comb(samples, k)


def pass_at(tallies: Sequence[Tally], ks: Iterable[int], groups: Sequence[str] = ()) -> dict[int, Mean]:
    """Mean over instances of pass@k by k, each with its interval and the number of instances that have k samples.

    A k that no instance has samples for is left out. The intervals are those of `pass_rates`. With `groups`, the name
    of one for each tally, whole groups are drawn: instances of one repository are alike, and only the width of groups
    says what a new one would bring. Then a k with too few groups for that is left out too.
    """
    found: dict[int, Mean] = {}
    for k in ks:
        chosen = [(number, one) for number, one in enumerate(tallies) if one.judged >= k]
        parts: dict[str, list[float]] = {}
        for number, one in chosen:
            name = groups[number] if groups else str(number)
            parts.setdefault(name, []).append(pass_at_k(one.judged, one.passed, k))
        scores = [score for part in parts.values() for score in part]
        mean = mean_of_groups(list(parts.values())) if groups else mean_of(scores)
        if mean is not None:
            found[k] = with_width(mean, len(parts)) if set(scores) in ({0.0}, {1.0}) else mean
    return found


def pass_rates(tallies: Iterable[Tally], *, count: int = 1, enough: int | None = None) -> PassRates:
    """The rates over instances that were sampled to the end.

    With `enough`, an instance that passed so often in fewer than `count` attempts was stopped, and is counted as such.
    Intervals are those of a percentile bootstrap over instances (Efron 1979) with fixed random numbers. Where no
    instance was ever solved, or each one always, it would have no width however few they are: there it is the exact one
    of as many trials as there are instances (Clopper and Pearson 1934).
    """

    def stopped(one: Tally) -> bool:
        return enough is not None and one.passed >= enough and one.attempts < count

    judged = [one for one in tallies if one.judged]
    whole = [one for one in judged if not stopped(one)]
    means = pass_at(whole, (1, 4))
    return PassRates(
        instances=len(judged),
        samples=sum(one.judged for one in judged),
        passed=sum(one.passed for one in judged),
        pass_at_1=means[1].mean if 1 in means else None,
        pass_at_4=means[4].mean if 4 in means else None,
        intervals={f"pass_at_{k}": (mean.low, mean.high) for k, mean in means.items()},
        left_out={f"pass_at_{k}": sum(one.judged < k for one in whole) for k in (1, 4)},
        stopped=len(judged) - len(whole),
    )


def with_width(mean: Mean, trials: int) -> Mean:
    """The same with the exact interval of as many trials that all failed, or all passed."""
    width = 1.0 - (_OUTSIDE / 2) ** (1 / trials)
    low, high = (0.0, width) if mean.mean == 0.0 else (1.0 - width, 1.0)
    return mean.model_copy(update={"low": low, "high": high})
