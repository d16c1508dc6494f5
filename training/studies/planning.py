"""The plan of a study: who learns from what, and what is evaluated, fixed and written down before anything is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from pipeline.llm.weights import find_weights
from pipeline.types import Record, content_id
from training.cells import Cell
from training.studies.material import Material, StudyRow, counted
from training.studies.study import Arm, Study
from training.studies.tasks import NamedTask, open_tasks
from training.weight_files import weights_sha256

PLAN, TRAIN, EVALUATE = "plan", "train", "evaluate"
"""Parts of an arm; the first belongs to all of them."""
ALL = "all"


class ArmPlan(Record):
    """What is told of an arm, without any id."""

    rows: int
    n_tokens: int
    rows_sha256: str
    """Of the ids of its rows; empty where it learns nothing."""
    families: dict[str, int]
    domains: dict[str, int]


class StudyPlan(Record):
    """The line of a plan."""

    name: str
    config: dict[str, JsonValue]
    versions: dict[str, str]
    """NAME@VERSION of the rows that are learned from -> hash of their content."""
    base_sha256: str
    gguf_sha256: str | None
    """Of the weights that answer; None where those of `base` do."""
    held_out: tuple[str, ...]
    """Families."""
    arms: dict[str, dict[str, ArmPlan]]
    """Seed -> name -> arm."""
    instances: dict[str, dict[str, str]]
    """Environment -> name of the instance -> family."""

    @property
    def setting(self) -> str:
        """Hash of all of it."""
        return content_id("setting", self.model_dump(mode="json"))

    def cells(self) -> list[Cell]:
        """All there are, in the order in which they are done: the arm that others are compared to comes first."""
        per_cell = self.of_acting("instances_per_cell")
        found = []
        for seed, arms in self.arms.items():
            for arm, told in arms.items():
                if told.rows:
                    found.append(Cell(arm=arm, seed=int(seed), environment=ALL, part=TRAIN))
                for environment, tasks in self.instances.items():
                    parts = range(-(-len(tasks) // per_cell))
                    found += [
                        Cell(arm=arm, seed=int(seed), environment=environment, part=f"{EVALUATE}-{part:02d}")
                        for part in parts
                    ]
        return found

    def of_acting(self, name: str) -> int:
        """A number of the configuration."""
        acting = self.config["acting"]
        assert isinstance(acting, dict)
        return int(str(acting[name]))


@dataclass(frozen=True)
class Planned:
    """A plan with what it stands for on this machine."""

    plan: StudyPlan
    arms: dict[tuple[int, str], Arm]
    tasks: dict[str, list[NamedTask]]

    def part(self, cell: Cell, size: int) -> list[NamedTask]:
        """The instances of a cell."""
        number = int(cell.part.removeprefix(f"{EVALUATE}-"))
        return self.tasks[cell.environment][number * size : (number + 1) * size]


def planned(study: Study, material: Material, known: Sequence[StudyPlan] = ()) -> Planned:
    """Choose rows and instances; those of a `known` plan, the latest first, stay though others may be chosen now.

    Raises ConfigurationError where there are too few.
    """
    config = study.config
    arms = {(seed, arm.name): arm for seed in config.seeds for arm in study.arms(seed, material)}
    learned = {row for arm in arms.values() if arm.lesson is not None for row in arm.lesson.rows}
    _refuse_held_out(study, learned)
    trained = [row.trained for row in sorted(learned)]
    tasks = open_tasks(material.store, material.splits, config.acting, study.held_out(), trained)
    chosen = {environment: group[: config.acting.instances] for environment, group in tasks.items()}
    plan = _plan(study, material, arms, chosen)
    for other in reversed(known):
        if plan.model_copy(update={"instances": other.instances}) == other:
            there = {environment: {task.name: task for task in group} for environment, group in tasks.items()}
            if all(set(names) <= set(there[environment]) for environment, names in other.instances.items()):
                found = {one: [there[one][name] for name in names] for one, names in other.instances.items()}
                return Planned(other, arms, found)
    return Planned(plan, arms, chosen)


def _plan(
    study: Study,
    material: Material,
    arms: Mapping[tuple[int, str], Arm],
    tasks: Mapping[str, Sequence[NamedTask]],
) -> StudyPlan:
    versions = {arm.lesson.version for arm in arms.values() if arm.lesson is not None}
    by_seed: dict[str, dict[str, ArmPlan]] = {}
    for (seed, name), arm in arms.items():
        by_seed.setdefault(str(seed), {})[name] = _told(arm)
    gguf = study.config.acting.gguf
    return StudyPlan(
        name=study.name,
        config=_without_paths(study.config.model_dump(mode="json", exclude={"acting": {"threads"}}), study.paths),
        versions={version.reference: version.sha256 for version in sorted(versions)},
        base_sha256=weights_sha256(material.base),
        gguf_sha256=find_weights(str(gguf), Path()).sha256 if gguf is not None else None,
        held_out=tuple(sorted(study.held_out())),
        arms=by_seed,
        instances={environment: {task.name: task.family for task in group} for environment, group in tasks.items()},
    )


def _without_paths(told: dict[str, JsonValue], paths: Sequence[Sequence[str]]) -> dict[str, JsonValue]:
    for path in paths:
        place: JsonValue = told
        for name in path[:-1]:
            place = place[name] if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(path[-1], None)
    return told


def _refuse_held_out(study: Study, rows: set[StudyRow]) -> None:
    """What is held out by its family is in no arm: else a study would be of no use after all its work."""
    if leaked := sorted({row.family for row in rows} & study.held_out()):
        raise AssertionError(f"study {study.name} would learn from families that it holds out: {', '.join(leaked)}")


def _told(arm: Arm) -> ArmPlan:
    chosen = arm.lesson.rows if arm.lesson is not None else ()
    return ArmPlan(
        rows=len(chosen),
        n_tokens=sum(row.n_tokens for row in chosen),
        rows_sha256=content_id("rows", sorted(row.trajectory_id for row in chosen)) if chosen else "",
        families=dict(counted(chosen, lambda row: row.family)),
        domains=dict(counted(chosen, lambda row: row.domain)),
    )
