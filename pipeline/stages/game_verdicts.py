"""The verdict on attempts in games: the score that the game itself gave last. Nothing is run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.batch import Failure, Item, ItemsOnDemand, Outcome, StageReport
from pipeline.rows import trajectory_of, verification_row
from pipeline.schemas import Row
from pipeline.stages.options import Options, over_items
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory, VerificationResult
from sandbox.types import TestOutcome

SCORE = "score"
"""Name of the one test: that the score is full."""


def score_of(trajectory: Trajectory) -> float:
    """The last score that a game gave, 1 is full; 0 where nothing was played."""
    scores = [step.extra["score"] for step in trajectory.steps if "score" in step.extra]
    return float(scores[-1]) if scores else 0.0


def judged(trajectory: Trajectory) -> VerificationResult:
    """The verdict: passed with the full score, and nothing less."""
    score = score_of(trajectory)
    passed = score >= 1.0
    message = "" if passed else f"the score is {score:g} of 1"
    return VerificationResult(
        trajectory_id=trajectory.trajectory_id,
        outcome="passed" if passed else "failed",
        tests=(TestOutcome(test_id=SCORE, outcome="passed" if passed else "failed", message=message),),
        seconds=0.0,
        backend=trajectory.backend,
    )


def judge_games(store: Store, instances: Sequence[TaskInstance], options: Options) -> StageReport:
    """One row in `verifications` for each recorded attempt at the given instances."""
    stored = StoredRows(store, "trajectories", ["trajectory_id", "instance_id", "attempt"])
    wanted = pc.is_in(stored.light.column("instance_id"), pa.array([one.instance_id for one in instances], pa.string()))
    numbers = pc.indices_nonzero(pc.and_(wanted, pc.is_valid(stored.light.column("trajectory_id")))).to_pylist()
    ids = stored.light.column("trajectory_id").to_pylist()
    attempts = stored.light.column("attempt").to_pylist()

    def item(at: int) -> Item[int]:
        number = numbers[at]
        again = attempts[number] or 1
        return Item(ids[number] if again == 1 else f"{ids[number]}@{again}", number)

    def work(number: int) -> Outcome:
        trajectory = trajectory_of(stored.reader.at(stored.places[number]))
        return Outcome({"verifications": [verification_row(judged(trajectory))]})

    def failed_rows(number: int, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"verifications": [{"trajectory_id": ids[number], "outcome": "error"}]}

    items = ItemsOnDemand(len(numbers), item)
    return over_items("game_verdicts", items, work, store=store, failed_rows=failed_rows, options=options)
