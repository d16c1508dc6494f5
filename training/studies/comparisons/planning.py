"""The plan of a comparison and what was chosen of it, written down before the first cell is done.

A plan is the same for all arms and seeds. Each choice of arms and seeds has a line of its own beside it: a later one
adds cells to the setting and takes none away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from pipeline.errors import ConfigurationError
from pipeline.llm.weights import find_weights
from pipeline.types import Record, content_id
from training.cells import Cell, CellLine, Cells
from training.studies.comparisons.comparison import GGUF, Comparison, ComparisonConfig, ComparisonPlan
from training.studies.comparisons.figures import GROUPS, Group

ALL, PLAN, RUN = "all", "plan", "run"


class Chosen(Record):
    """Arms and seeds of a plan that are to be done."""

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    weights: dict[str, str]
    """Backbone -> SHA-256 of the weights that were given for it."""

    @property
    def cell(self) -> Cell:
        """Of the line that tells it."""
        return Cell(
            arm=ALL, seed=0, environment=ALL, part=f"{PLAN}-{content_id('chosen', self.arms, self.seeds)[-16:]}"
        )


class Setting(NamedTuple):
    """What the lines of one setting tell of its plan."""

    plan: ComparisonPlan
    chosen: tuple[Chosen, ...]
    commands: tuple[str, ...]

    def cells(self) -> list[Cell]:
        """All that were chosen, seed by seed, so that arms can be compared as early as may be."""
        wanted = {(arm, seed): None for one in self.chosen for seed in one.seeds for arm in one.arms}
        pairs = sorted(wanted, key=lambda pair: pair[1])
        return [
            Cell(arm=arm, seed=seed, environment=environment, part=RUN)
            for number in dict.fromkeys(seed for _, seed in pairs)
            for environment in self.plan.tasks
            for arm, seed in pairs
            if seed == number
        ]


def held_out(groups: Mapping[Group, tuple[str, ...]]) -> Group:
    """The group of an environment that is farthest from what was learned."""
    return [group for group in GROUPS if group in groups][-1]


def planned(comparison: Comparison, config: ComparisonConfig, data: Path) -> ComparisonPlan:
    """Raises ConfigurationError for an environment without tasks, and what the comparison raises."""
    tasks = {environment: dict(groups) for environment, groups in comparison.tasks(config, data).items()}
    for environment in config.environments:
        if not tasks.get(environment) or not all(tasks[environment].values()):
            raise ConfigurationError(f"environment {environment} has a group without tasks; ask for more of them")
    return ComparisonPlan(name=comparison.name, budget=config.budget, config=config.deciding(), tasks=tasks)


def chosen_of(comparison: Comparison, config: ComparisonConfig) -> Chosen:
    """The arms, in the order of the comparison, and the seeds. Raises ConfigurationError for what there is not."""
    able = [arm for arm, one in comparison.arms.items() if one.backbone != GGUF or config.gguf is not None]
    named = config.arms or tuple(able)
    if unknown := [arm for arm in named if arm not in comparison.arms]:
        raise ConfigurationError(f"{comparison.name} has no arm {unknown[0]!r}; there are {', '.join(comparison.arms)}")
    for option, values in (("arms", named), ("seeds", config.seeds)):
        if twice := [value for number, value in enumerate(values) if value in values[:number]]:
            raise ConfigurationError(f"--{option} names {twice[0]} twice")
    arms = tuple(arm for arm in comparison.arms if arm in named)
    answering = [arm for arm in arms if comparison.arms[arm].backbone == GGUF]
    weights = {}
    if answering:
        if config.gguf is None:
            raise ConfigurationError(
                f"arms {', '.join(answering)} answer from a GGUF file: give it with --gguf, or leave them out of --arms"
            )
        weights[GGUF] = find_weights(str(config.gguf), Path()).sha256
    return Chosen(arms=arms, seeds=config.seeds, weights=weights)


def settings_of(cells: Cells) -> dict[str, Setting]:
    """Those that are in the lines, by their hashes; that whose plan was made last comes last."""
    found: dict[str, Setting] = {}
    for line in cells.lines():
        if line.cell.part.startswith(f"{PLAN}-"):
            plan, command = ComparisonPlan.model_validate(line.figures["plan"]), str(line.figures["command"])
            before = found.get(line.setting, Setting(plan, (), ()))
            chosen = (*before.chosen, Chosen.model_validate(line.figures["chosen"]))
            found[line.setting] = Setting(plan, chosen, tuple(dict.fromkeys([*before.commands, command])))
    return found


def plan_line(plan: ComparisonPlan, chosen: Chosen, command: str, code_commit: str | None) -> CellLine:
    """The line of a choice."""
    figures: dict[str, JsonValue] = {
        "command": command,
        "plan": plan.model_dump(mode="json"),
        "chosen": chosen.model_dump(mode="json"),
    }
    return CellLine(setting=plan.setting, cell=chosen.cell, seconds=0.0, code_commit=code_commit, figures=figures)


def refuse_other_weights(chosen: Chosen, known: Iterable[Chosen]) -> None:
    """Raises ConfigurationError where a backbone had other weights in this setting: one table would have both."""
    for one in known:
        for backbone, sha256 in one.weights.items():
            if chosen.weights.get(backbone, sha256) != sha256:
                raise ConfigurationError(
                    f"arms of this setting answered from other weights (sha256 {sha256[:8]}…): give those with "
                    f"--{backbone}, or keep the results elsewhere with --results"
                )
