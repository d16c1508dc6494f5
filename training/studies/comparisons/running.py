"""Does the cells of a comparison that are missing; what is done is on disk before the next begins."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from pipeline.errors import InfrastructureFailure
from pipeline.types import Record
from sandbox.errors import SandboxUnavailable
from sandbox.locks import claimed, exclusive
from training.cells import Cell, CellLine, Cells
from training.studies.comparisons.comparison import Comparison, ComparisonConfig, ComparisonPlan
from training.studies.comparisons.figures import ArmFigures, Group, Spent
from training.studies.comparisons.planning import (
    chosen_of,
    held_out,
    plan_line,
    planned,
    refuse_other_weights,
    settings_of,
)

logger = logging.getLogger(__name__)


class CellFigures(Record):
    """Figures of a line; the names of the tasks are in the plan."""

    groups: dict[Group, tuple[float, ...]]
    """Share of attempts that passed, by task."""
    later: dict[Group, tuple[float, ...]] = Field(default_factory=dict)
    """See ArmFigures."""
    spent: Spent


@dataclass(frozen=True)
class Place:
    """Where cells are done."""

    data: Path
    code_commit: str | None
    command: str
    """That was given, without places of this machine."""


OnCell = Callable[[Cell, int, int], None]
"""Told of a cell that was done, and of how many are done, of how many."""


def do_comparison(
    comparison: Comparison,
    config: ComparisonConfig,
    place: Place,
    cells: Cells,
    most: int | None = None,
    on_cell: OnCell = lambda cell, done, of: None,
) -> str:
    """Do the cells of the chosen arms and seeds that have no line yet, at most so many; the setting they belong to.

    Several processes share the cells of one data folder. A cell in which our machinery broke gets no line: the next
    call does it again. Raises ConfigurationError, and ValueError for an arm that was judged on tasks not planned.
    """
    chosen = chosen_of(comparison, config)
    locks = place.data / "locks"
    with exclusive(locks / f"plan-{comparison.name}.lock", f"the plan of {comparison.name}"):
        plan = planned(comparison, config, place.data)
        known = settings_of(cells).get(plan.setting)
        refuse_other_weights(chosen, known.chosen if known is not None else ())
        cells.add(plan_line(plan, chosen, place.command, place.code_commit))
    wanted = settings_of(cells)[plan.setting].cells()
    mine = [cell for cell in wanted if cell.arm in chosen.arms and cell.seed in chosen.seeds]
    left = len(mine) if most is None else most
    for cell in cells.missing(plan.setting, mine):
        if left == 0:
            break
        with claimed(locks / f"cell-{_file_name(plan, cell)}.lock") as free:
            if not free or not cells.missing(plan.setting, [cell]):
                continue  # another process does it, or did
            left -= 1
            line = _done(comparison, config, place, plan, cell)
            if line is not None and cells.add(line):
                on_cell(cell, len(wanted) - len(cells.missing(plan.setting, wanted)), len(wanted))
    return plan.setting


def _done(
    comparison: Comparison, config: ComparisonConfig, place: Place, plan: ComparisonPlan, cell: Cell
) -> CellLine | None:
    """Do one cell; its line, or None where our machinery broke."""
    began = time.monotonic()
    try:
        figures = comparison.run_cell(cell, plan, config, place.data)
    except (InfrastructureFailure, SandboxUnavailable) as fault:
        logger.warning("%s has no result (%s); the same command tries it again", cell.name, fault)
        return None
    _refuse_other_tasks(cell, plan, figures, comparison.arms[cell.arm].judged)
    shares = {group: one.passed for group, one in figures.groups.items()}
    kept = CellFigures(groups=shares, later=figures.later, spent=figures.spent)
    return CellLine(
        setting=plan.setting,
        cell=cell,
        seconds=round(time.monotonic() - began, 1),
        code_commit=place.code_commit,
        figures=kept.model_dump(mode="json"),
    )


def _refuse_other_tasks(cell: Cell, plan: ComparisonPlan, figures: ArmFigures, most: int | None) -> None:
    tasks = {group: names[:most] for group, names in plan.tasks[cell.environment].items()}
    judged = {group: one.names for group, one in figures.groups.items()}
    if held_out(tasks) not in judged or any(tasks.get(group) != names for group, names in judged.items()):
        raise ValueError(f"{cell.name} was judged on other tasks than planned")


def _file_name(plan: ComparisonPlan, cell: Cell) -> str:
    words = (plan.name, plan.setting.rpartition("-")[2], cell.arm, str(cell.seed), cell.environment)
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(words).lower())
