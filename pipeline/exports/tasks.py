"""What every export of tasks starts from: the selected instances with their repositories and the evidence for them."""

from __future__ import annotations

from collections.abc import Collection

from pipeline.errors import PipelineError
from pipeline.rows import instance_of
from pipeline.schemas import Row, to_rows
from pipeline.tables import Store
from pipeline.types import Record, TaskInstance


class NothingToExport(PipelineError):
    """There is no such task. The text says which one is missing, or what makes tasks."""


class ExportedTask(Record):
    """One admitted instance with what is known about it."""

    instance: TaskInstance
    repository: str
    """Full name."""
    source: str
    commit: str
    license: str | None
    """SPDX id of the repository, None when it was not recognised."""
    evidence: dict[str, str]
    """What each gate of admission saw."""
    flake_rate: float | None = None
    """Share of the judgements of a right state that failed; None on rows that were admitted without that gate."""


def selected_tasks(store: Store, wanted: Collection[str] = ()) -> list[ExportedTask]:
    """The admitted instances that are no near copies, sorted by id; only those whose ids are `wanted` if any are.

    Raises NothingToExport for an id that is none of theirs, and when there is no task at all.
    """
    good = {row["instance_id"] for row in to_rows(store.current("selections")) if row["selected"]}
    rows = {
        str(row["instance_id"]): row
        for row in to_rows(store.current("instances"))
        if row["admitted"] and row["instance_id"] in good
    }
    if unknown := sorted(set(wanted) - set(rows)):
        raise NothingToExport(
            f"no admitted instance has the id {', '.join(unknown)}; `touchstone show ID` says what became of one"
        )
    if not rows:
        raise NothingToExport("no instance was admitted yet; `touchstone run` makes some")
    repositories = {str(row["repository_id"]): row for row in to_rows(store.current("repositories"))}
    return [
        _task(rows[instance_id], repositories[str(rows[instance_id]["repository_id"])])
        for instance_id in sorted(wanted or rows)
    ]


def _task(row: Row, repository: Row) -> ExportedTask:
    gates = row["gates"]
    assert isinstance(gates, list)
    return ExportedTask.model_validate(
        {
            "instance": instance_of(row),
            "repository": repository["full_name"],
            "source": repository["source"],
            "commit": repository["commit"],
            "license": repository["license"],
            "evidence": {gate["gate"]: gate["evidence"] for gate in gates},
            "flake_rate": row.get("flake_rate"),
        }
    )
