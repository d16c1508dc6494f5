"""A comparison whose arms pass as told, and do nothing else; run as a program, it does its cells until it is killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field

from training.cells import Cell, Cells
from training.studies.comparisons.comparison import (
    ArmFacts,
    Cited,
    Comparison,
    ComparisonConfig,
    ComparisonPlan,
    Tasks,
)
from training.studies.comparisons.figures import ArmFigures, Group, GroupFigures, Spent
from training.studies.comparisons.running import Place, do_comparison

UNSEEN: dict[str, Sequence[tuple[float, ...]]] = {
    "oracle": [(1, 1, 1, 1), (1, 1, 1, 1)],
    "bc": [(0, 0, 0, 0), (0, 0, 0, 0)],
    "more_bc": [(1, 0, 0, 0), (1, 1, 0, 0)],
    "grpo": [(1, 1, 1, 0), (1, 1, 1, 1)],
    "react": [(0.5, 0, 0, 0), (0, 0, 0, 0)],
}
"""By arm: shares of the four unseen tasks, with an even seed and with an odd one."""
HELD, BEGUN = "hold", "begun"
"""A file of the data folder: the cell whose name it has waits for its end, and says in the other that it began."""


class ScriptedConfig(ComparisonConfig):
    """Settings of nothing."""

    environments: tuple[str, ...] = Field(default=("maze",), min_length=1)
    budget: int = 1000
    unseen: int = 4
    """Tasks."""


def tasks_of(config: ComparisonConfig, data: Path) -> Tasks:
    assert isinstance(config, ScriptedConfig) and data.is_absolute()
    groups: dict[Group, tuple[str, ...]] = {
        "seen": ("near-0", "near-1"),
        "unseen": tuple(f"far-{number}" for number in range(config.unseen)),
    }
    return dict.fromkeys(config.environments, groups)


def figures_of(cell: Cell, plan: ComparisonPlan) -> ArmFigures:
    """Both seen tasks are solved; steps and tokens grow with the seed."""
    shares: dict[Group, tuple[float, ...]] = {"seen": (1.0, 1.0), "unseen": UNSEEN[cell.arm][cell.seed % 2]}
    names = plan.tasks[cell.environment]
    return ArmFigures(
        groups={
            group: GroupFigures(tasks=len(passed), passed=passed, names=names[group])
            for group, passed in shares.items()
        },
        spent=Spent(
            learned_tokens=600,
            read_tokens=300 + 100 * cell.seed,
            written_tokens=30,
            environment_steps=10 * (1 + cell.seed) if cell.arm == "grpo" else 0,
            episodes=2,
            cpu_s=1.5,
            budget=710.0,
        ),
    )


def run_cell(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
    held = data / HELD
    if held.exists() and held.read_text() == cell.name:
        (data / BEGUN).touch()
        while held.exists():
            time.sleep(0.01)
    return figures_of(cell, plan)


def scripted(run: Callable[[Cell, ComparisonPlan, ComparisonConfig, Path], ArmFigures] = run_cell) -> Comparison:
    """The comparison, whose cells may also be done otherwise."""
    groups = {"oracle": ("bound", "tiny"), "react": ("prompted", "gguf")}
    facts = {arm: groups.get(arm, ("learned", "tiny")) for arm in UNSEEN}
    return Comparison(
        name="scripted",
        about="a comparison of nothing",
        arms={
            arm: ArmFacts.model_validate({"about": f"arm {arm}", "group": group, "backbone": backbone})
            for arm, (group, backbone) in facts.items()
        },
        compared_to="more_bc",
        cited=(Cited(name="Others", source="a paper", figure="99 of 100"),),
        config=ScriptedConfig,
        tasks=tasks_of,
        run_cell=run,
    )


def main() -> None:
    """Arguments: the data folder, the file of cells, and arms."""
    data, cells, *arms = sys.argv[1:]
    config = ScriptedConfig(arms=tuple(arms), seeds=(0, 1))
    do_comparison(scripted(), config, Place(Path(data), None, "touchstone experiment scripted"), Cells(Path(cells)))


if __name__ == "__main__":
    main()
