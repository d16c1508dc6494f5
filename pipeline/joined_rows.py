"""Rows of several tables together: attempts with the verdict on them, their instance and its repository.

Trajectories are read one at a time: those of all attempts need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeVar

from pipeline.agents.bash_chat import chat_of
from pipeline.agents.game_chat import game_chat
from pipeline.errors import PipelineError
from pipeline.rows import instance_of, trajectory_of
from pipeline.schemas import Row, to_rows
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory

Found = TypeVar("Found")
PASSED = frozenset({"passed"})
JUDGED = frozenset({"passed", "failed"})


class RowMissing(PipelineError):
    """A row that another one names is not in its table: somebody removed files of the data folder."""


def named(rows: Mapping[object, Found], key: object, table: str) -> Found:
    if key not in rows:
        raise RowMissing(
            f"the table {table} has no row {key}, which other tables name; put tables/{table} of the data folder back "
            "as it was, or start over with another data folder (--data)"
        )
    return rows[key]


@dataclass(frozen=True)
class JudgedRow:
    """An attempt with a verdict: what a replay needs."""

    instance: TaskInstance
    trajectory_id: str
    outcome: Literal["passed", "failed"]
    stored: StoredRows
    number: int
    """Of the row in `stored`."""

    @property
    def trajectory(self) -> Trajectory:
        """Read anew each time. Raises TableDamaged."""
        return trajectory_of(self.stored.row(self.number))


def judged_rows(store: Store) -> list[JudgedRow]:
    """Every attempt that has a verdict, passed and failed, sorted by trajectory id. Raises RowMissing."""
    instances = {row["instance_id"]: row for row in to_rows(store.current("instances")) if row["instance_id"]}
    attempts = _Attempts(store)
    judged = []
    for row in _verdicts(store, ["trajectory_id", "outcome"]):
        outcome = row["outcome"]
        if outcome == "passed" or outcome == "failed":
            number, instance_id = attempts.find(row["trajectory_id"])
            instance = instance_of(named(instances, instance_id, "instances"))
            judged.append(JudgedRow(instance, str(row["trajectory_id"]), outcome, attempts.stored, number))
    return judged


class _Attempts:
    """Where the rows of attempts are, by trajectory id."""

    def __init__(self, store: Store) -> None:
        self.stored = StoredRows(store, "trajectories", ["trajectory_id", "instance_id", "attempt"])
        ids, instances, _ = (column.to_pylist() for column in self.stored.light.columns)
        self._places = {one: (at, of) for at, (one, of) in enumerate(zip(ids, instances, strict=True)) if one}

    def find(self, trajectory_id: object) -> tuple[int, object]:
        """Number of the row and id of the instance. Raises RowMissing."""
        return named(self._places, trajectory_id, "trajectories")


def _verdicts(store: Store, columns: Sequence[str] | None = None) -> list[Row]:
    """Sorted by trajectory id."""
    return sorted(to_rows(store.current("verifications", columns)), key=lambda row: str(row["trajectory_id"]))


@dataclass(frozen=True)
class VerifiedRow:
    """An attempt with a verdict, with everything of it that is published."""

    trajectory_id: str
    attempt: int
    """How often the attempt was begun anew after a failure of ours, from 1."""
    verdict: Row
    instance: Row
    repository: Row
    stored: StoredRows
    number: int
    """Of the row in `stored`."""

    @property
    def row(self) -> Row:
        """Of the published schema, read anew each time. Raises TableDamaged."""
        return _published(self.stored.row(self.number), self.verdict, self.instance, self.repository)


def verified(store: Store, outcomes: Set[str] = PASSED) -> list[VerifiedRow]:
    """Each attempt that passed, in the order in which attempts were recorded. Raises RowMissing.

    With other `outcomes`, those that came to one of them.
    """
    repositories = {row["repository_id"]: row for row in to_rows(store.current("repositories"))}
    instances = {row["instance_id"]: row for row in to_rows(store.current("instances")) if row["instance_id"]}
    verdicts, attempts = _verdicts(store), _Attempts(store)
    passed = []
    for verdict in verdicts:
        if verdict["outcome"] in outcomes:
            number, instance_id = attempts.find(verdict["trajectory_id"])
            instance = named(instances, instance_id, "instances")
            repository = named(repositories, instance["repository_id"], "repositories")
            passed.append(
                VerifiedRow(
                    trajectory_id=str(verdict["trajectory_id"]),
                    attempt=attempts.stored.light.column("attempt")[number].as_py() or 1,
                    verdict=verdict,
                    instance=instance,
                    repository=repository,
                    stored=attempts.stored,
                    number=number,
                )
            )
    return sorted(passed, key=lambda one: one.number)


def _published(trajectory: Row, verdict: Row, instance: Row, repository: Row) -> Row:
    return {
        **{name: repository[name] for name in _PUBLISHED_OF_REPOSITORY},
        **{name: instance[name] for name in _PUBLISHED_OF_INSTANCE},
        **{name: trajectory[name] for name in _PUBLISHED_OF_TRAJECTORY},
        "provenance": instance["provenance"],
        "messages": trajectory["messages"] or _chat(instance_of(instance), trajectory_of(trajectory)),
        "outcome": verdict["outcome"],
        "tests": verdict["tests"],
        "integrity": verdict["integrity"],
        "verified": verdict["outcome"] == "passed",
    }


def _chat(instance: TaskInstance, trajectory: Trajectory) -> list[dict[str, str]]:
    """Of an agent without a model, as one with a model would have had it."""
    chat = game_chat if instance.verifier.kind == "environment" else chat_of
    return list(chat(instance, trajectory.steps))


_PUBLISHED_OF_REPOSITORY = ("source", "full_name", "commit", "license", "license_path", "license_sha256")
_PUBLISHED_OF_INSTANCE = (
    "instance_id",
    "repository_id",
    "language",
    "domain",
    "family",
    "difficulty",
    "instruction",
    "solution",
    "verifier_files",
    "verifier_command",
    "verifier_timeout_s",
    "verifier_passing_tests",
    "verifier_sha256",
    "image_digest",
    "generator",
    "flake_rate",
    "seed",
    "state_scope",
    "context_ids",
    "limits_memory_mb",
    "limits_cpus",
    "limits_pids",
    "limits_lifetime_s",
    "limits_network",
)
_PUBLISHED_OF_TRAJECTORY = (
    "trajectory_id",
    "agent",
    "model",
    "sampling",
    "sample",
    "steps",
    "n_turns",
    "n_tokens",
    "n_prompt_tokens",
    "stop_reason",
    "failure_class",
    "backend",
    "interface",
    "details",
)
