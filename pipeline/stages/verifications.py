"""Judges the frozen final state of each attempt once, then lets the state go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.batch import Failure, Item, ItemsOnDemand, Outcome, StageReport
from pipeline.machines import Machines
from pipeline.rows import trajectory_of, verification_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.stored_rows import Place, StoredRows
from pipeline.tables import Store
from pipeline.types import TaskInstance
from pipeline.verification import verify
from sandbox.protocol import Backend


class Attempted(NamedTuple):
    """What one item is."""

    instance: TaskInstance
    trajectory_id: str
    attempt: int
    """Of the rollout; a new attempt needs a new verdict."""
    state: str
    """Reference of its frozen final state."""
    place: Place
    """Of its row among the stored ones."""


def verify_all(
    store: Store,
    instances: Sequence[TaskInstance],
    backend: Backend,
    options: Options,
    *,
    command_timeout_s: float,
) -> StageReport:
    """One row in `verifications` for each recorded attempt at the given instances.

    A state is discarded when its verdict is on disk, never before, so that a kill costs nothing.
    """
    stored = StoredRows(store, "trajectories", ["trajectory_id", "instance_id", "attempt", "state_reference"])
    attempts = _attempts(stored, {instance.instance_id: instance for instance in instances})
    reader, machines = stored.reader, options.machines
    holders = {} if machines is None else _holders(backend, machines)

    def work(attempted: Attempted) -> Outcome:
        trajectory = trajectory_of(reader.at(attempted.place))
        result = verify(attempted.instance, trajectory, backend, command_timeout_s=command_timeout_s)
        failure = None
        if result.failure_class is not None:
            failure = Failure(failure_class=result.failure_class, reason=result.log_tail[-500:])
        return Outcome({"verifications": [verification_row(result)]}, failure)

    def failed_rows(attempted: Attempted, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"verifications": [{"trajectory_id": attempted.trajectory_id, "outcome": "error"}]}

    def holder(attempted: Attempted) -> str | None:
        return holders.get(attempted.state)

    report = over_items(
        "verification",
        attempts,
        work,
        store=store,
        failed_rows=failed_rows,
        options=options,
        machines=machines,
        near=holder,
    )
    judged = judged_states(store)
    discard(backend, judged)
    if machines is not None and (done := judged & set(_holders(backend, machines))):
        machines.everywhere(partial(discard, backend, done))
    return report


def discard(backend: Backend, references: Set[str]) -> None:
    """Forget those of the states that are kept here. Raises SandboxUnavailable."""
    for reference in backend.states() & references:
        backend.discard(reference)


def _holders(backend: Backend, machines: Machines) -> dict[str, str]:
    """Which machine keeps which state: another one would have to carry out the whole attempt again."""
    return {state: name for name, states in machines.everywhere(backend.states).items() for state in states}


def judged_states(store: Store) -> set[str]:
    """References of states that have a verdict."""
    verdicts = to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
    judged = {row["trajectory_id"] for row in verdicts if row["outcome"] != "error"}
    return {
        str(row["state_reference"])
        for row in to_rows(store.current("trajectories", ["trajectory_id", "state_reference"]))
        if row["trajectory_id"] in judged and row["state_reference"]
    }


def passed_by_doing_nothing(store: Store) -> list[str]:
    """Trajectories of the agent that does nothing whose verifier was content: their instances prove nothing."""
    attempts = to_rows(store.current("trajectories", ["trajectory_id", "agent"]))
    idle = {row["trajectory_id"] for row in attempts if row["agent"] == "noop"}
    rows = to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
    return sorted(
        str(row["trajectory_id"]) for row in rows if row["outcome"] == "passed" and row["trajectory_id"] in idle
    )


def _attempts(stored: StoredRows, instances: Mapping[str, TaskInstance]) -> ItemsOnDemand[Attempted]:
    """The attempts at these instances among the stored ones."""
    light = stored.light
    at_these = pc.is_in(light.column("instance_id"), pa.array(list(instances), pa.string()))
    numbers = pc.indices_nonzero(pc.and_(at_these, pc.is_valid(light.column("trajectory_id"))))

    def make(at: int) -> Item[Attempted]:
        number = numbers[at].as_py()
        row = light.slice(number, 1).to_pylist()[0]
        attempted = Attempted(
            instances[row["instance_id"]],
            row["trajectory_id"],
            row["attempt"],
            row["state_reference"] or "",
            stored.places[number],
        )
        return Item(_key(attempted.trajectory_id, attempted.attempt), attempted)

    return ItemsOnDemand(len(numbers), make)


def _key(trajectory_id: str, attempt: int) -> str:
    return trajectory_id if attempt == 1 else f"{trajectory_id}@{attempt}"
