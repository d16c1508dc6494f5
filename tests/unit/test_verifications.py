"""Which attempts the verification stage judges, and which states it lets go; the verdicts are made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import pipeline.stages.verifications
from pipeline.journal import Journal
from pipeline.rows import trajectory_row
from pipeline.schemas import to_rows
from pipeline.stages.options import Options
from pipeline.stages.verifications import verify_all
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory, VerificationResult
from sandbox.protocol import Backend


class States:
    """A backend that has frozen states and nothing else."""

    def __init__(self, *references: str) -> None:
        self.held = set(references)

    def states(self) -> set[str]:
        return set(self.held)

    def discard(self, reference: str) -> None:
        self.held.remove(reference)


def attempted(task: TaskInstance, sample: int) -> Trajectory:
    return Trajectory(
        instance_id=task.instance_id,
        agent="noop",
        sample=sample,
        steps=(),
        stop_reason="submitted",
        state_reference=f"state-{sample}",
    )


def recorded(store: Store, trajectories: Sequence[Trajectory], attempt: int = 1) -> None:
    rows = [
        trajectory_row(one) | {"item_key": one.trajectory_id, "attempt": attempt, "reason": ""} for one in trajectories
    ]
    store.append("trajectories", rows, app_id=f"rollout-{attempt}", sequence=len(trajectories))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    Journal(tmp_path).close()
    return Store(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Trajectory ids in the order in which verdicts are asked for; every one passes."""
    asked: list[str] = []

    def verify(task: TaskInstance, trajectory: Trajectory, *_: Any, **__: Any) -> VerificationResult:
        assert trajectory.instance_id == task.instance_id
        asked.append(trajectory.trajectory_id)
        return VerificationResult(trajectory_id=trajectory.trajectory_id, outcome="passed", tests=(), seconds=0.0)

    monkeypatch.setattr(pipeline.stages.verifications, "verify", verify)
    return asked


def verified(store: Store, tasks: Sequence[TaskInstance], states: States) -> tuple[int, int]:
    """How many there are, and how many of them had been settled before."""
    report = verify_all(store, tasks, cast("Backend", states), Options(), command_timeout_s=1.0)
    assert (report.done, report.missing) == (report.total, ())
    return report.total, report.skipped


def test_each_attempt_at_the_given_instances_is_judged_once_and_its_state_let_go(
    task: TaskInstance, store: Store, judged: list[str]
) -> None:
    other = task.model_copy(update={"instruction": "Another."})
    states = States("state-0", "state-1", "state-7", "unknown")
    ours = [attempted(task, 0), attempted(task, 1)]
    recorded(store, [ours[0], attempted(other, 7), ours[1]])
    assert verified(store, [task], states) == (2, 0)
    assert sorted(judged) == sorted(one.trajectory_id for one in ours)
    assert states.held == {"state-7", "unknown"}
    assert verified(store, [task, other], states) == (3, 2)
    assert states.held == {"unknown"}
    rows = to_rows(store.read("verifications"))
    assert len(rows) == len({row["trajectory_id"] for row in rows}) == 3


def test_an_attempt_that_was_made_anew_is_judged_anew(task: TaskInstance, store: Store, judged: list[str]) -> None:
    states, one = States(), attempted(task, 0)
    recorded(store, [one])
    verified(store, [task], states)
    recorded(store, [one], attempt=2)
    assert verified(store, [task], states) == (1, 0)
    assert sorted(store.keys("verifications")) == [one.trajectory_id, f"{one.trajectory_id}@2"]
    assert judged == [one.trajectory_id] * 2


def test_an_attempt_that_failed_without_a_trajectory_is_not_judged(
    task: TaskInstance, store: Store, judged: list[str]
) -> None:
    told = {"instance_id": task.instance_id, "agent": "noop", "item_key": "k", "attempt": 1, "reason": "gone"}
    store.append("trajectories", [told], app_id="rollout", sequence=1)
    assert verified(store, [task], States()) == (0, 0)
    assert judged == []
