"""How the arms of the baselines that are prompted are done: agents with a model that was trained elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.errors import ConfigurationError
from pipeline.types import TaskInstance
from training.cells import Cell
from training.studies.comparisons.baselines import BaselinesConfig
from training.studies.comparisons.comparison import ComparisonPlan
from training.studies.comparisons.figures import ArmFigures, Group
from training.studies.comparisons.grounds import Grounds

PROMPTED = ("react", "reflexion", "adapt")


def prompted(
    cell: Cell,
    plan: ComparisonPlan,
    config: BaselinesConfig,
    grounds: Grounds,
    judged: Mapping[Group, Sequence[TaskInstance]],
) -> ArmFigures:
    raise ConfigurationError("not yet")
