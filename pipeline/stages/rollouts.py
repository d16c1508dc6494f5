"""Lets agents attempt admitted instances and keeps each attempt, with its frozen final state, as a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipeline.attempts import Attempt, passed_by_instance
from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.interfaces import environment_of
from pipeline.rollout import RolloutConfig, rollout
from pipeline.rows import trajectory_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from sandbox.protocol import Backend


def roll_out(
    store: Store, attempts: Iterable[Attempt], backend: Backend, config: RolloutConfig, options: Options
) -> StageReport:
    """One row in `trajectories` for each attempt. Raises ConfigurationError for what no retry can mend."""

    def work(attempt: Attempt) -> Outcome:
        instance, agent, sample = attempt
        environment = environment_of(instance, backend, agent.interface, command_timeout_s=config.command_timeout_s)
        with environment:
            trajectory = rollout(instance, agent, environment, config, sample=sample)
        acted = trajectory.model_copy(update={"backend": backend.name})
        return Outcome({"trajectories": [trajectory_row(acted)]})

    def failed_rows(attempt: Attempt, failure: Failure) -> Mapping[str, Sequence[Row]]:
        instance, agent, sample = attempt
        told: Row = {"instance_id": instance.instance_id, "agent": agent.name, "model": agent.model, "sample": sample}
        return {"trajectories": [told]}

    items = [Item(attempt.trajectory_id, attempt) for attempt in attempts]
    return over_items("rollout", items, work, store=store, failed_rows=failed_rows, options=options)


def passed_so_far(store: Store) -> Mapping[tuple[str, str], int]:
    """How often each (instance id, agent) passed, by the verdicts on record."""
    verdicts = {row["trajectory_id"]: row["outcome"] for row in to_rows(store.current("verifications"))}
    rows = to_rows(store.current("trajectories"))
    return passed_by_instance(
        (str(row["instance_id"]), str(row["agent"]), str(verdicts.get(row["trajectory_id"]))) for row in rows
    )
