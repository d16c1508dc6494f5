"""Lets agents attempt admitted instances and keeps each attempt, with its frozen final state, as a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.agents import AGENTS
from pipeline.agents.protocol import Agent
from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.environment import SandboxEnvironment
from pipeline.errors import ConfigurationError
from pipeline.rollout import RolloutConfig, rollout
from pipeline.rows import trajectory_row
from pipeline.schemas import Row
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import TaskInstance, trajectory_id
from sandbox.protocol import Backend


class Attempt(NamedTuple):
    """What one item is."""

    instance: TaskInstance
    agent: Agent
    sample: int

    @property
    def trajectory_id(self) -> str:
        return trajectory_id(self.instance.instance_id, self.agent.name, None, {}, self.sample)


def roll_out(
    store: Store,
    instances: Sequence[TaskInstance],
    agents: Sequence[str],
    backend: Backend,
    config: RolloutConfig,
    options: Options,
) -> StageReport:
    """One row in `trajectories` for each instance and agent. Raises ConfigurationError for an unknown agent."""
    if unknown := sorted(set(agents) - set(AGENTS)):
        raise ConfigurationError(f"[rollout] agents: there is no agent {unknown}; there are {sorted(AGENTS)}")
    attempts = [Attempt(instance, AGENTS[name], 0) for instance in instances for name in agents]

    def work(attempt: Attempt) -> Outcome:
        instance, agent, sample = attempt
        with SandboxEnvironment(instance, backend, command_timeout_s=config.command_timeout_s) as environment:
            trajectory = rollout(instance, agent, environment, config, sample=sample)
        acted = trajectory.model_copy(update={"backend": backend.name})
        return Outcome({"trajectories": [trajectory_row(acted)]})

    def failed_rows(attempt: Attempt, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {
            "trajectories": [
                {"instance_id": attempt.instance.instance_id, "agent": attempt.agent.name, "sample": attempt.sample}
            ]
        }

    items = [Item(attempt.trajectory_id, attempt) for attempt in attempts]
    return over_items("rollout", items, work, store=store, failed_rows=failed_rows, options=options)
