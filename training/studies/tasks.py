"""Which instances a study evaluates, under names that all machines share: ids depend on the image that was built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from pipeline.curation.splits import SplitConfig
from pipeline.errors import ConfigurationError
from pipeline.tables import Store
from training.evaluation_leaks import leaks
from training.evaluation_tasks import OWN, EvaluatedTask, Selection, chosen_tasks
from training.studies.material import digest
from training.studies.study import ActingConfig
from training.trained_on import TrainedRow

_DIGITS = 12


class NamedTask(NamedTuple):
    """An instance, without any text of it."""

    name: str
    environment: str
    task: EvaluatedTask

    @property
    def family(self) -> str:
        return self.task.instance.family


def task_name(task: EvaluatedTask) -> str:
    """domain/family/seed/document/line, or the folder that an imported task stood in."""
    instance = task.instance
    told = instance.provenance
    if task.benchmark != OWN:
        return f"{task.benchmark}/{told.get('folder', '').rpartition('/')[2] or instance.instance_id}"
    document = told.get("document_sha256", "")[:_DIGITS]
    return f"{instance.domain}/{instance.family}/{instance.seed}/{document}/{told.get('line', '')}"


def open_tasks(
    store: Store, splits: SplitConfig, acting: ActingConfig, held_out: frozenset[str], trained: Sequence[TrainedRow]
) -> dict[str, list[NamedTask]]:
    """Those that may be evaluated, by environment, in the order in which they are taken: one of each family in turn.

    What comes too near to what any arm learns is left out. Raises ConfigurationError for an environment that has too
    few.
    """
    found: dict[str, list[NamedTask]] = {}
    for environment in acting.environments:
        named = {task_name(task): task for task in reversed(_candidates(store, splits, acting, held_out, environment))}
        near = {leak.instance_id for leak in leaks(trained, list(named.values())) if leak.left_out}
        kept = [NamedTask(name, environment, task) for name, task in named.items() if task.instance_id not in near]
        if len(kept) < acting.instances:
            raise ConfigurationError(
                f"acting.instances: {acting.instances} of {environment} are asked for; there are {len(kept)}, and "
                f"{len(near)} that come too near to what is learned"
            )
        found[environment] = _in_turn(kept)
    return found


def _candidates(
    store: Store, splits: SplitConfig, acting: ActingConfig, held_out: frozenset[str], environment: str
) -> list[EvaluatedTask]:
    if environment != OWN:
        every = chosen_tasks(store, Selection(source="tasks"), splits)
        return [task for task in every if task.benchmark == environment]
    families = sorted(held_out) or list(acting.families)
    split = None if held_out else acting.split
    tasks = chosen_tasks(store, Selection(split=split, families=tuple(families)), splits)
    return [task for task in tasks if task.benchmark == OWN]


def _in_turn(tasks: Iterable[NamedTask]) -> list[NamedTask]:
    """One of each family in turn, those of a family by the hashes of their names."""
    groups: dict[str, list[NamedTask]] = {}
    for task in sorted(tasks, key=lambda one: digest(0, one.name)):
        groups.setdefault(task.family, []).append(task)
    turns = zip_longest(*(groups[family] for family in sorted(groups)))
    return [task for turn in turns for task in turn if task is not None]
