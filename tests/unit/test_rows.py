"""Rows that belong together, read back from the working tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.joined_rows import RowMissing, judged_rows, verified
from pipeline.rows import instance_row
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory

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
