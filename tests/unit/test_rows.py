"""Rows that belong together, read back from the working tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.agents.bash_chat import chat_of
from pipeline.joined_rows import RowMissing, judged_rows, verified
from pipeline.rows import instance_row, repository_row, trajectory_row
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import Repository, Step, TaskInstance, Trajectory

BATCH: Row = {"attempt": 1, "reason": ""}


def write(store: Store, table: str, key: str, row: Row) -> None:
    store.append(table, [row | BATCH | {"item_key": key}], app_id="test", sequence=1)


@pytest.mark.parametrize(
    ("there", "lost"), [((), "trajectories"), (("trajectories",), "instances"), (("trajectories", "instances"), "rep")]
)
def test_a_verdict_whose_rows_were_removed_names_the_table(
    tmp_path: Path, task: TaskInstance, there: tuple[str, ...], lost: str
) -> None:
    store = Store(tmp_path)
    trajectory = Trajectory(
        instance_id=task.instance_id, agent="oracle", steps=(), stop_reason="submitted", state_reference="s"
    )
    identity = trajectory.trajectory_id
    write(store, "verifications", identity, {"trajectory_id": identity, "outcome": "passed"})
    if "trajectories" in there:
        write(store, "trajectories", identity, {"trajectory_id": identity, "instance_id": task.instance_id})
    if "instances" in there:
        write(store, "instances", "item", instance_row(task))
    with pytest.raises(RowMissing, match=f"the table {lost}"):
        verified(store)
    if lost != "rep":
        with pytest.raises(RowMissing, match=f"the table {lost}"):
            judged_rows(store)


@pytest.mark.parametrize(
    "recorded", [(), ({"role": "user", "content": "Do it."}, {"role": "assistant", "content": "-"})]
)
def test_an_attempt_without_a_chat_is_published_with_the_one_of_bash(
    tmp_path: Path, task: TaskInstance, recorded: tuple[dict[str, str], ...]
) -> None:
    store = Store(tmp_path)
    repository = Repository(source="local", full_name="tests/words", commit="1", language="python", locator=".")
    task = task.model_copy(update={"repository_id": repository.repository_id})
    steps = (Step(index=0, observation="", action="ls", exit_code=0), Step(index=1, observation="a.txt\n", action=""))
    trajectory = Trajectory(
        instance_id=task.instance_id,
        agent="oracle",
        steps=steps,
        messages=recorded,
        stop_reason="submitted",
        state_reference="s",
    )
    identity = trajectory.trajectory_id
    write(store, "repositories", "repository", repository_row(repository))
    write(store, "instances", "item", instance_row(task))
    write(store, "trajectories", identity, trajectory_row(trajectory))
    write(store, "verifications", identity, {"trajectory_id": identity, "outcome": "passed"})
    [one] = verified(store)
    assert one.row["messages"] == list(recorded or chat_of(task, steps))
