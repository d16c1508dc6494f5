"""How the arms of the baselines are done, and on which tasks they are judged."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import ConfigurationError
from training.cells import Cell
from training.studies.comparisons.comparison import ComparisonConfig, ComparisonPlan, Tasks
from training.studies.comparisons.figures import ArmFigures


def tasks_of(config: ComparisonConfig, data: Path) -> Tasks:
    """Raises ConfigurationError."""
    del data
    raise ConfigurationError(f"environments {', '.join(config.environments)} have no tasks for baselines yet")


def run_cell(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
    """Raises ConfigurationError."""
    del plan, config, data
    raise ConfigurationError(f"arm {cell.arm} cannot be done yet")
