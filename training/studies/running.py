"""Does the cells of a study that are missing, one after the other; what is done is on disk before the next begins."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from pydantic import JsonValue

from pipeline.llm.protocol import ChatModel
from pipeline.rollout import RolloutConfig
from pipeline.rollout_report import recorded_attempts, spent_by
from pipeline.stages.options import Options
from sandbox.locks import claimed, exclusive
from sandbox.protocol import Backend
from training.cells import Cell, CellLine, Cells
from training.evaluate import EvaluationConfig, Policy, evaluate
from training.evaluation_folder import EvaluationFolder
from training.evaluation_report import instance_tallies
from training.evaluation_tasks import Selection
from training.models import TrainedModel
from training.studies.figures import InstanceResult
from training.studies.material import Material
from training.studies.planning import ALL, TRAIN, Planned, planned
from training.studies.results import PLAN_CELL, plans_of
from training.studies.study import Arm, Study, StudyConfig
from training.trained_on import TrainedRow

logger = logging.getLogger(__name__)

_CURVE = 40
"""Points of a loss curve that a line keeps."""
_OF_TRAINING = {
    "method",
    "rows",
    "windows",
    "packs",
    "n_tokens",
    "n_target_tokens",
    "trainable_parameters",
    "steps",
    "first_loss",
    "last_loss",
    "seconds",
    "device",
    "run",
}


class StretchOver(Exception):
    """A cell of training used its time up, and its checkpoints are kept."""

    def __init__(self, done: int, of: int) -> None:
        super().__init__(f"{done} of {of} steps")
        self.done, self.of = done, of


class Models(Protocol):
    """Makes and opens the models of arms."""

    def learned(self, study: Study, arm: Arm, seed: int) -> TrainedModel:
        """The model of an arm with a lesson, trained where it is not there yet.

        Raises StretchOver when the time of a cell is used up, and what `fine_tune` raises.
        """

    def opened(self, study: Study, arm: Arm, model: TrainedModel | None) -> AbstractContextManager[ChatModel]:
        """What answers for an arm, as long as it is needed. Raises ConfigurationError."""


@dataclass(frozen=True)
class Bench:
    """What cells are done with."""

    material: Material
    models: Models
    backend: Callable[[], Backend]
    """Asked for when the first attempt is made: a machine that only trains needs none."""
    options: Options
    command: str
    """That was given, without places of this machine; kept with the plan."""


OnCell = Callable[[Cell, int, int], None]
"""Told of a cell that was done, and of how many are done, of how many."""


def do_cells(
    study: Study,
    bench: Bench,
    cells: Cells,
    most: int | None = None,
    on_cell: OnCell = lambda cell, done, of: None,
) -> str:
    """Do the cells that have no line yet, at most so many; the setting they belong to.

    A cell with attempts that our machinery broke gets no line: the next call tries those attempts again. Several
    processes share the evaluations of one data folder. Raises ConfigurationError, and what training and evaluation
    raise.
    """
    with exclusive(bench.material.data / "locks" / f"plan-{study.name}.lock", f"the plan of {study.name}"):
        plan = planned(study, bench.material, list(plans_of(cells).values()))
    work = _Work(study, bench, cells, plan, plan.plan.setting, on_cell, most)
    work.add(PLAN_CELL, 0.0, {}, {"command": bench.command, "plan": plan.plan.model_dump(mode="json")})
    missing = cells.missing(work.setting, plan.plan.cells())
    for (seed, arm), group in groupby(missing, key=lambda cell: (cell.seed, cell.arm)):
        if not work.arm(plan.arms[seed, arm], seed, list(group)):
            break
    return work.setting


@dataclass
class _Work:
    study: Study
    bench: Bench
    cells: Cells
    planned: Planned
    setting: str
    on_cell: OnCell
    left: int | None
    """Cells that may still be done now."""

    def add(self, cell: Cell, seconds: float, model: dict[str, str], figures: dict[str, JsonValue]) -> None:
        commit = self.bench.material.code_commit
        line = CellLine(
            setting=self.setting,
            cell=cell,
            seconds=round(seconds, 1),
            code_commit=commit,
            model=model,
            figures=figures,
        )
        if self.cells.add(line):
            wanted = self.planned.plan.cells()
            self.on_cell(cell, len(wanted) - len(self.cells.missing(self.setting, wanted)), len(wanted))

    def arm(self, arm: Arm, seed: int, missing: list[Cell]) -> bool:
        """The cells of an arm; False when no more may be done."""
        if self.left == 0:
            return False
        model = None
        if arm.lesson is not None:
            model = self._trained(arm, seed, missing)
            if model is None:
                return False
        evaluations = [cell for cell in missing if cell.part != TRAIN]
        if not evaluations or self.left == 0:
            return self.left != 0
        with self.bench.models.opened(self.study, arm, model) as answering:
            policy = Policy(answering, None if model is None else model.reference, self._trained_on(arm, seed))
            for cell in evaluations:
                name = evaluation_name(self.study.name, self.setting, cell)
                with claimed(self.bench.material.data / "locks" / f"cell-{name}.lock") as mine:
                    if not mine or not self.cells.missing(self.setting, [cell]):
                        continue  # another process does it, or did
                    if not self._spend():
                        return False
                    self._evaluated(cell, policy, EvaluationFolder(self.bench.material.data, name))
        return True

    def _trained_on(self, arm: Arm, seed: int) -> list[TrainedRow] | None:
        """What the evaluation of an arm has to leave out: what comes too near to the rows of any arm.

        That of one with few rows must not leave out others than the plan did, which knew them all: what is usual in
        tasks shows in many of them only. Arms would not be compared on the same instances.
        """
        if arm.lesson is None:
            return None
        lessons = [one.lesson for (of, _), one in self.planned.arms.items() if of == seed and one.lesson is not None]
        return list(dict.fromkeys(row.trained for lesson in lessons for row in lesson.rows))

    def _spend(self) -> bool:
        """Whether one more cell may be done."""
        if self.left == 0:
            return False
        if self.left is not None:
            self.left -= 1
        return True

    def _trained(self, arm: Arm, seed: int, missing: list[Cell]) -> TrainedModel | None:
        """The model of an arm, over as many cells as that takes; None when no more may be done."""
        cell = next((cell for cell in missing if cell.part == TRAIN), None)
        known = cell is None  # then it only has to be found, or made again on this machine
        while known or self._spend():
            began = time.monotonic()
            try:
                model = self.bench.models.learned(self.study, arm, seed)
            except StretchOver as over:
                part = missing[0].model_copy(update={"environment": ALL, "part": f"{TRAIN}-{over.done:05d}"})
                self.add(part, time.monotonic() - began, {}, {"steps": over.done, "of": over.of})
                known = False
                continue
            if cell is not None:
                told = {"reference": model.reference, "base_sha256": model.file.training.base_sha256}
                weights = {name: sha for name, sha in model.file.files.items() if name.endswith(".safetensors")}
                self.add(cell, time.monotonic() - began, told | weights, trained_figures(model))
            return model
        return None

    def _evaluated(self, cell: Cell, policy: Policy, folder: EvaluationFolder) -> None:
        config, began = self.study.config, time.monotonic()
        tasks = [one.task for one in self.planned.part(cell, config.acting.instances_per_cell)]
        names = {one.task.instance_id: one for one in self.planned.tasks[cell.environment]}
        found = evaluate(
            folder,
            tasks,
            Selection(instances=tuple(sorted(task.instance_id for task in tasks))),
            policy,
            evaluation_config(config),
            self.bench.backend(),
            self.bench.options,
            code_commit=self.bench.material.code_commit,
        )
        made = recorded_attempts(folder.store)
        # It leaves out what comes too near to the rows of this arm, should the plan not have seen that.
        tallies = instance_tallies([task for task in tasks if task.instance_id in found.instances], made)
        if lost := sum(config.acting.runs - one.judged for one in tallies.values()):
            logger.warning("%s: %d attempts have no result; the same command tries them again", cell.name, lost)
            return
        results = [
            InstanceResult(name=names[one].name, family=names[one].family, judged=tally.judged, passed=tally.passed)
            for one, tally in tallies.items()
        ]
        spent = spent_by([one for one in made if one.recorded]).model_dump(mode="json")
        figures: dict[str, JsonValue] = {"instances": [one.model_dump(mode="json") for one in results], "spent": spent}
        self.add(cell, time.monotonic() - began, {"name": found.policy.model, **found.policy.details}, figures)


def evaluation_config(config: StudyConfig) -> EvaluationConfig:
    """How an arm acts."""
    acting = config.acting
    told = acting.model_dump(include={"agent", "runs", "temperature", "top_p", "max_tokens"})
    budgets = RolloutConfig(**acting.model_dump(include={"max_steps", "max_seconds", "command_timeout_s"}))
    return EvaluationConfig.model_validate(told | {"budgets": budgets.model_dump()})


def evaluation_name(study: str, setting: str, cell: Cell) -> str:
    """Of the folder that the attempts of a cell are kept in."""
    words = (study, setting.rpartition("-")[2], cell.arm, str(cell.seed), cell.environment, cell.part)
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(words).lower())


def trained_figures(model: TrainedModel) -> dict[str, JsonValue]:
    """How the training of a model went, with its loss curve."""
    figures: dict[str, JsonValue] = model.file.training.model_dump(mode="json", include=_OF_TRAINING)
    return figures | {
        "losses": list(_thinned([(int(one["step"]), one["loss"]) for one in model.metrics() if "loss" in one]))
    }


def _thinned(curve: list[tuple[int, float]]) -> Iterator[list[JsonValue]]:
    """Means over equal parts, so that noise does not choose the points."""
    size = -(-len(curve) // _CURVE) or 1
    for start in range(0, len(curve), size):
        part = curve[start : start + size]
        yield [part[-1][0], round(sum(loss for _, loss in part) / len(part), 4)]
