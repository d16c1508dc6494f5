"""The agent loop: one agent, one environment, one budget, one trajectory. It judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import Field

from pipeline.agents.protocol import Agent, ContextFull
from pipeline.environment import Environment
from pipeline.types import Action, Record, Step, StopReason, TaskInstance, Trajectory, trajectory_id


class RolloutConfig(Record):
    """Budgets of one attempt. A spent budget ends the attempt; its final state is judged all the same."""

    max_steps: int = Field(default=50, gt=0)
    """Decisions per attempt."""
    max_seconds: float = Field(default=900.0, gt=0)
    """Time of the answers and the commands of an attempt, s. What a faulty server or a slow start of a sandbox took is
    not in it, for a spent budget is a label."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens per attempt, those of all prompts and all answers, as far as the server counts them."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Cost per attempt, by the prices of the model, USD."""
    command_timeout_s: float = Field(default=120.0, gt=0)
    """Wall time per command, s."""

    def for_attempt(self, task: TaskInstance, agent: Agent) -> RolloutConfig:
        """The budgets of one attempt: few steps for models must not cut a reference solution short."""
        if agent.model is not None or self.max_steps > len(task.solution):
            return self
        return self.model_copy(update={"max_steps": len(task.solution) + 1})


def rollout(
    task: TaskInstance, agent: Agent, environment: Environment, config: RolloutConfig, *, sample: int = 0
) -> Trajectory:
    """Let `agent` act until it hands in or a budget is spent, then freeze the final state under the trajectory's id.

    Raises SandboxUnavailable, ImageMissing, ModelUnavailable and the other errors of a ChatModel when our machinery
    failed: such an attempt leaves no trajectory.
    """
    attempt = _Attempt(task, agent, environment, config, sample)
    observation = environment.reset()
    while attempt.stopped is None:
        observation = attempt.turn(observation)
    return attempt.trajectory(observation)


@dataclass
class _Attempt:
    """One attempt as far as it has come."""

    task: TaskInstance
    agent: Agent
    environment: Environment
    config: RolloutConfig
    sample: int
    steps: list[Step] = field(default_factory=list)
    stopped: StopReason | None = None
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0

    def turn(self, observation: str) -> str:
        """One decision and what came of it: the next observation."""
        try:
            action = self.agent.act(self.task, self.steps, observation)
        except ContextFull:
            self.stopped = "max_context"
            return observation
        self._pay(action)
        if action.command is None:
            extra = _extra(action) | ({"told": action.told} if action.told is not None else {})
            self._add(action, observation, "", extra=extra)
            if action.told is None:
                self.stopped = "submitted"
                return observation
            self._look_at_budgets()
            return action.told
        outcome = self.environment.step(action.command)
        self.seconds += outcome.seconds
        self._add(
            action,
            observation,
            action.command,
            exit_code=outcome.exit_code,
            seconds=outcome.seconds,
            extra=_extra(action) | outcome.extra,
        )
        if outcome.done:
            self.stopped = "done"
        else:
            self._look_at_budgets()
        return outcome.observation

    def trajectory(self, observation: str) -> Trajectory:
        """Freeze the state and put it all together; `observation` is the last one."""
        agent, task = self.agent, self.task
        if self.stopped != "submitted" and self.steps:
            # The agent did not see it, whoever reads the attempt may.
            last = self.steps[-1]
            self.steps[-1] = last.model_copy(update={"extra": last.extra | {"after": observation}})
        reference = trajectory_id(task.instance_id, agent.name, agent.model, agent.sampling, self.sample)
        changes = self.environment.changes()
        reference = self.environment.outcome(reference)
        assert self.stopped is not None
        return Trajectory(
            instance_id=task.instance_id,
            agent=agent.name,
            model=agent.model,
            sampling=dict(agent.sampling),
            sample=self.sample,
            steps=tuple(self.steps),
            interface=agent.interface,
            messages=agent.conversation(task, self.steps),
            details=dict(agent.details),
            changes=changes,
            stop_reason=self.stopped,
            state_reference=reference,
        )

    def _add(self, action: Action, observation: str, done: str, **fields: object) -> None:
        tokens = sum(call.completion_tokens or 0 for call in action.calls)
        said = {"thought": action.thought, "action": done, "tokens": tokens}
        self.steps.append(Step.model_validate({"index": len(self.steps), "observation": observation, **said, **fields}))

    def _pay(self, action: Action) -> None:
        self.tokens += sum((call.prompt_tokens or 0) + (call.completion_tokens or 0) for call in action.calls)
        self.seconds += sum(call.seconds for call in action.calls)
        self.cost_usd += sum(call.cost_usd or 0.0 for call in action.calls)

    def _look_at_budgets(self) -> None:
        config = self.config
        budgets: Sequence[tuple[StopReason, float, float | None]] = (
            ("max_steps", len(self.steps), config.max_steps),
            ("max_seconds", self.seconds, config.max_seconds),
            ("max_tokens", self.tokens, config.max_tokens),
            ("max_cost", self.cost_usd, config.max_cost_usd),
        )
        self.stopped = next((name for name, used, most in budgets if most is not None and used >= most), None)


def _extra(action: Action) -> dict[str, object]:
    calls = [call.model_dump(mode="json", exclude_none=True) for call in action.calls]
    return action.extra | ({"calls": calls} if calls else {})
