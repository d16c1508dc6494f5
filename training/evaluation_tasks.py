"""Which admitted instances are evaluated, and which benchmark each one belongs to. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pipeline.curation.splits import SplitConfig, split_of
from pipeline.errors import ConfigurationError
from pipeline.rows import instance_of
from pipeline.schemas import Row, to_rows
from pipeline.tables import Store
from pipeline.types import TASKS, Record, TaskInstance

OWN = "touchstone"
"""The benchmark of tasks that were made here, exports of ours that were imported again included."""
_FORMATS = {"terminal_bench": "terminal-bench-1", "harbor": "harbor"}


class Selection(Record):
    """What was asked to be evaluated: instances that fulfil all that is set."""

    split: Literal["validation", "test"] | None = None
    """Of those that were made here; imported ones belong to no split."""
    families: tuple[str, ...] = ()
    """Empty for all."""
    source: str | None = None
    """Name of the source of their repositories, e.g. `tasks` for imported folders; None for any."""
    instances: tuple[str, ...] = ()
    """Ids; empty for all."""
    limit: int | None = None
    """Only so many, the first ones by the ids; None for all."""


@dataclass(frozen=True)
class EvaluatedTask:
    """One instance with its repository, as rows of the working tables hold them."""

    row: Row = field(repr=False)
    repository: Row = field(repr=False)

    @cached_property
    def instance(self) -> TaskInstance:
        return instance_of(self.row)

    @property
    def instance_id(self) -> str:
        return str(self.row["instance_id"])

    @property
    def full_name(self) -> str:
        return str(self.repository["full_name"])

    @property
    def benchmark(self) -> str:
        return benchmark_of(self.instance)


def benchmark_of(instance: TaskInstance) -> str:
    """`touchstone`, or the format of the imported folder, followed by the name of the folder of folders it stood in.

    Terminal-Bench 2 is in Harbor's format: from a folder `terminal-bench-2` it is `harbor/terminal-bench-2`.
    """
    told = instance.provenance
    found = _FORMATS.get(told.get("format", ""))
    if found is None or "origin_instance_id" in told:
        return OWN
    collection = told.get("folder", "").removeprefix(f"{TASKS}/").rpartition("/")[0]
    return f"{found}/{collection}" if collection else found


def chosen_tasks(store: Store, selection: Selection, splits: SplitConfig) -> list[EvaluatedTask]:
    """The admitted instances of a data folder that are asked for, sorted by id.

    Near copies of others are left out among those that were made here; a benchmark of others is taken as it is, also
    where decontamination keeps it out of the data. Raises ConfigurationError when there is none, and for an id of
    `selection.instances` that is not admitted here.
    """
    repositories = {row["repository_id"]: row for row in to_rows(store.current("repositories"))}
    different = {
        row["instance_id"]
        for row in to_rows(store.current("selections", ["instance_id", "selected"]))
        if row["selected"]
    }
    admitted = {str(row["instance_id"]): row for row in to_rows(store.current("instances")) if row["admitted"]}
    tasks = [
        EvaluatedTask(row, repositories[row["repository_id"]])
        for _, row in sorted(admitted.items())
        if row["repository_id"] in repositories
    ]
    known = [one for one in tasks if one.repository["source"] == TASKS or one.instance_id in different]
    if unknown := sorted(set(selection.instances) - {one.instance_id for one in known}):
        raise ConfigurationError(f"evaluation: there is no admitted instance {', '.join(unknown[:5])} in this folder")
    chosen = [one for one in known if _is_chosen(one, selection, splits)][: selection.limit]
    if not chosen:
        asked = _asked(selection)
        raise ConfigurationError(f"evaluation: none of {len(known)} admitted instances is asked for ({asked})")
    return chosen


def _is_chosen(task: EvaluatedTask, selection: Selection, splits: SplitConfig) -> bool:
    row, source = task.row, task.repository["source"]
    if selection.split is not None:
        split = split_of(task.full_name, str(row["domain"]), str(row["family"]), splits)
        if source == TASKS or split != selection.split:
            return False
    return (
        (not selection.families or row["family"] in selection.families)
        and selection.source in (None, source)
        and (not selection.instances or task.instance_id in selection.instances)
    )


def _asked(selection: Selection) -> str:
    asked = selection.model_dump(exclude_defaults=True, exclude={"instances"}, mode="json")
    return ", ".join(f"{name} = {value}" for name, value in asked.items()) or "the given ids"


def tasks_of(store: Store, ids: Sequence[str]) -> list[EvaluatedTask]:
    """Those of an evaluation, from its own tables, in the order of `ids`. Raises KeyError for one that is not there."""
    repositories = {row["repository_id"]: row for row in to_rows(store.current("repositories"))}
    rows = {str(row["instance_id"]): row for row in to_rows(store.current("instances"))}
    return [EvaluatedTask(rows[one], repositories[rows[one]["repository_id"]]) for one in ids]
