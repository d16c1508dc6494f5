"""The agent loop: one agent, one environment, one budget, one trajectory. It judges nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic import Field

from pipeline.agents.protocol import Agent
from pipeline.environment import Environment
from pipeline.types import Record, Step, TaskInstance, Trajectory, trajectory_id


class RolloutConfig(Record):
    """Budgets of one attempt. A spent budget ends the attempt; its final state is judged all the same."""

    max_steps: int = Field(default=50, gt=0)
    """Commands per attempt."""
    max_seconds: float = Field(default=900.0, gt=0)
    """Wall time per attempt, s."""
    command_timeout_s: float = Field(default=120.0, gt=0)
    """Wall time per command, s."""


def rollout(
    task: TaskInstance, agent: Agent, environment: Environment, config: RolloutConfig, *, sample: int = 0
) -> Trajectory:
    """Let `agent` act until it hands in or a budget is spent, then freeze the final state under the trajectory's id.

    Raises SandboxUnavailable or ImageMissing when our machinery failed: such an attempt leaves no trajectory.
    """
    reference = trajectory_id(task.instance_id, agent.name, None, {}, sample)
    started = time.monotonic()
    observation = environment.reset()
    steps: list[Step] = []
    while True:
        action = agent.act(task, steps, observation)
        if action.command is None:
            steps.append(Step(index=len(steps), observation=observation, thought=action.thought, action=""))
            return _finished(task, agent, environment, steps, "submitted", reference, sample)
        outcome = environment.step(action.command)
        steps.append(
            Step(
                index=len(steps),
                observation=observation,
                thought=action.thought,
                action=action.command,
                exit_code=outcome.exit_code,
                seconds=outcome.seconds,
                extra=outcome.extra,
            )
        )
        observation = outcome.observation
        if len(steps) >= config.max_steps:
            return _finished(task, agent, environment, steps, "max_steps", reference, sample)
        if time.monotonic() - started >= config.max_seconds:
            return _finished(task, agent, environment, steps, "max_seconds", reference, sample)


def _finished(
    task: TaskInstance,
    agent: Agent,
    environment: Environment,
    steps: Sequence[Step],
    stop_reason: str,
    reference: str,
    sample: int,
) -> Trajectory:
    state = environment.outcome(reference)
    return Trajectory.model_validate(
        {
            "instance_id": task.instance_id,
            "agent": agent.name,
            "sample": sample,
            "steps": tuple(steps),
            "stop_reason": stop_reason,
            "state_reference": state.reference,
        }
    )
