"""All comparisons, by their names."""

from __future__ import annotations

from training.studies.comparisons.baselines import BASELINES
from training.studies.comparisons.comparison import Comparison

COMPARISONS: dict[str, Comparison] = {one.name: one for one in (BASELINES,)}
