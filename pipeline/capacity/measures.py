"""A measured figure with its range, and how ranges go through a formula.

Items of one repository are alike, so repositories are what is counted: many attempts at the tasks of a few repositories
give a wide range. All in closed form, so that equal measurements give equal figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pydantic import Field, model_validator

from pipeline.types import Record

Z = 1.959963984540054
"""Of a range that holds the true value 95 times in 100."""
ALONE = 10.0
"""The mean of a single repository is known up to this factor: an assumption, since one measurement has no spread."""
MOST = 1000.0
"""No mean has a range wider than this factor to either side."""
DIGITS = 6
"""Significant ones that are kept of a figure."""

Pair = tuple[float, float]
"""What all items of one repository gave, and how many items there were."""


class Range(Record):
    """A figure and where it lies in 95 of 100 cases."""

    value: float = Field(ge=0, allow_inf_nan=False)
    low: float = Field(ge=0, allow_inf_nan=False)
    high: float = Field(ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} does not lie between {self.low} and {self.high}")
        if self.value > 0.0 and self.low == 0.0:
            raise ValueError(f"{self.value} is measured and may not be 0 at the same time")
        return self


class Measure(Range):
    """A figure that was measured."""

    n: int = Field(gt=0)
    """Items that it was measured on."""
    repositories: int = Field(gt=0)
    """… and the repositories that they come from."""


def significant(number: float) -> float:
    """`number` with as many digits as are kept."""
    return float(f"{number:.{DIGITS}g}")


def share_of(pairs: Sequence[Pair]) -> Measure:
    """The share of items that went on: a Wilson interval over as many independent items as these are worth.

    Where the shares of repositories differ more than chance would have it, items count for less (the design effect of
    a cluster sample); where all items had the same fate, each repository counts once.
    """
    gave, n, m = sum(one for one, _ in pairs), sum(given for _, given in pairs), len(pairs)
    p = gave / n
    if m == 1:
        worth = 1.0
    elif 0.0 < p < 1.0:
        worth = n / max(1.0, _spread(pairs, p) * n / (p * (1.0 - p)))
    else:
        worth = float(m)
    middle = (p + Z * Z / (2 * worth)) / (1 + Z * Z / worth)
    half = Z / (1 + Z * Z / worth) * math.sqrt(p * (1 - p) / worth + Z * Z / (4 * worth * worth))
    low, high = (0.0 if p == 0.0 else middle - half), (1.0 if p == 1.0 else middle + half)
    return _measure(p, min(low, p), max(high, p), pairs)


def mean_of(pairs: Sequence[Pair]) -> Measure:
    """The mean of one item: Student's interval of the logarithm, over repositories."""
    total, n, m = sum(one for one, _ in pairs), sum(given for _, given in pairs), len(pairs)
    mean = total / n
    if mean == 0.0:
        return _measure(0.0, 0.0, 0.0, pairs)
    half = math.log(ALONE) if m == 1 else student(m - 1) * math.sqrt(_spread(pairs, mean) * m / (m - 1)) / mean
    factor = math.exp(min(half, math.log(MOST)))
    return _measure(mean, mean / factor, mean * factor, pairs)


def _spread(pairs: Sequence[Pair], ratio: float) -> float:
    """How far a ratio of sums would be off, squared, if these were all repositories there are."""
    return sum((one - ratio * given) ** 2 for one, given in pairs) / sum(given for _, given in pairs) ** 2


def _measure(value: float, low: float, high: float, pairs: Sequence[Pair]) -> Measure:
    value, low, high = map(significant, (value, low, high))
    return Measure(value=value, low=low, high=high, n=round(sum(given for _, given in pairs)), repositories=len(pairs))


def student(freedom: int) -> float:
    """Of Student's distribution, what 2.5 % lie above: exact for 1 and 2, else by a series, off by less than 1 %."""
    if freedom == 1:
        return math.tan(math.pi * 0.475)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (4 * 0.975 * 0.025))
    z, v = Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def times(*factors: Range) -> Range:
    """The product of figures that were measured apart: their distances on the scale of logarithms add up as squares.

    A figure that is 0 makes the product 0; what it may be at most is the product of all upper ends.
    """
    value = math.prod(one.value for one in factors)
    if value == 0.0:
        return Range(value=0.0, low=0.0, high=math.prod(one.high for one in factors))
    below = math.sqrt(sum(math.log(one.value / one.low) ** 2 for one in factors))
    above = math.sqrt(sum(math.log(one.high / one.value) ** 2 for one in factors))
    return Range(value=value, low=value * math.exp(-below), high=value * math.exp(above))


def exactly(number: float) -> Range:
    """A figure that is given."""
    return Range(value=number, low=number, high=number)


def one_over(figure: Range) -> Range:
    """Raises ZeroDivisionError for 0."""
    return Range(value=1 / figure.value, low=1 / figure.high, high=1 / figure.low)


def total(figures: Iterable[Range]) -> Range:
    """The sum of figures that rise and fall together, as all do that hang on the same shares."""
    ends = list(figures)
    return Range(
        value=math.fsum(one.value for one in ends),
        low=math.fsum(one.low for one in ends),
        high=math.fsum(one.high for one in ends),
    )


def larger(figures: Iterable[Range]) -> Range:
    """What satisfies all."""
    ends = list(figures)
    return Range(
        value=max(one.value for one in ends), low=max(one.low for one in ends), high=max(one.high for one in ends)
    )
