"""What the lines of an experiment come to: result.json, made anew from cells.jsonl at any time, on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from pipeline.errors import ConfigurationError
from pipeline.types import Record
from training.cells import Cell, CellLine, Cells
from training.studies.figures import ArmResult, InstanceResult, arm_result
from training.studies.planning import ALL, EVALUATE, PLAN, TRAIN, StudyPlan
from training.studies.study import Study

MOST_K = (1, 2, 4, 8, 16)
PLAN_CELL = Cell(arm=ALL, seed=0, environment=ALL, part=PLAN)


class StudyResult(Record):
    """result.json."""

    name: str
    about: str
    command: str
    """That the plan was made with."""
    setting: str
    seeds: tuple[int, ...]
    cells_done: int
    cells_planned: int
    code_commits: tuple[str, ...]
    seconds: float
    """Of all cells."""
    compared_to: str
    arms: dict[str, dict[str, ArmResult]]
    """By environment."""
    findings: dict[str, JsonValue]
    plan: StudyPlan


def plans_of(cells: Cells) -> dict[str, StudyPlan]:
    """Those that are in the lines, by their settings, the newest last."""
    lines = [line for line in cells.lines() if line.cell == PLAN_CELL]
    return {line.setting: StudyPlan.model_validate(line.figures["plan"]) for line in lines}


def result_of(study: type[Study], cells: Cells, setting: str | None = None) -> StudyResult:
    """Of one setting, by default the newest plan. Raises ConfigurationError where there is none."""
    lines, plans = cells.lines(), plans_of(cells)
    if not plans:
        raise ConfigurationError(f"{cells.file} has no plan yet; `touchstone experiment {study.name}` makes one")
    chosen = setting or next(reversed(plans))
    plan = plans[chosen]
    done = {line.cell.name: line for line in lines if line.setting == chosen}
    wanted = plan.cells()
    arms = {
        environment: _arms(plan, environment, study.compared_to, list(done.values())) for environment in plan.instances
    }
    return StudyResult(
        name=study.name,
        about=study.about,
        command=str(done[PLAN_CELL.name].figures["command"]),
        setting=chosen,
        seeds=tuple(int(seed) for seed in plan.arms),
        cells_done=sum(cell.name in done for cell in wanted),
        cells_planned=len(wanted),
        code_commits=tuple(dict.fromkeys(line.code_commit or "unknown" for line in done.values())),
        seconds=round(sum(line.seconds for line in done.values()), 1),
        compared_to=study.compared_to,
        arms=arms,
        findings=study.findings(arms),
        plan=plan,
    )


def _arms(plan: StudyPlan, environment: str, compared_to: str, lines: Sequence[CellLine]) -> dict[str, ArmResult]:
    names = list(dict.fromkeys(name for arms in plan.arms.values() for name in arms))
    results = {name: _results(name, environment, lines) for name in names}
    ks = [k for k in MOST_K if k <= plan.of_acting("runs") * len(plan.arms)]
    return {
        name: arm_result(
            results[name],
            ks,
            results.get(compared_to) if name != compared_to else None,
            _training(name, lines),
        )
        for name in names
        if results[name]
    }


def _results(arm: str, environment: str, lines: Sequence[CellLine]) -> dict[int, list[InstanceResult]]:
    found: dict[int, list[InstanceResult]] = {}
    for line in lines:
        cell = line.cell
        if (cell.arm, cell.environment) == (arm, environment) and cell.part.startswith(EVALUATE):
            instances = line.figures["instances"]
            assert isinstance(instances, list)
            found.setdefault(cell.seed, []).extend(InstanceResult.model_validate(one) for one in instances)
    return found


def _training(arm: str, lines: Sequence[CellLine]) -> dict[str, dict[str, JsonValue]]:
    found: Mapping[str, CellLine] = {
        str(line.cell.seed): line for line in lines if line.cell.arm == arm and line.cell.part == TRAIN
    }
    return {seed: dict(line.figures) for seed, line in sorted(found.items())}
