"""The agent loop over an environment with recorded answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline.agents import FIXED
from pipeline.agents.bash import BashAgent
from pipeline.agents.fixed import FixedAgent
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import Action, Step, TaskInstance, trajectory_id
from sandbox.errors import SandboxUnavailable
from sandbox.types import FileChange


class RecordedEnvironment:
    """Answers each command with its number; breaks at command `breaks_at`."""

    def __init__(self, breaks_at: int | None = None) -> None:
        self.commands: list[str] = []
        self.frozen: list[str] = []
        self._breaks_at = breaks_at

    def reset(self) -> str:
        return ""

    def step(self, command: str) -> StepOutcome:
        if len(self.commands) == self._breaks_at:
            raise SandboxUnavailable("the engine is gone")
        self.commands.append(command)
        return StepOutcome(observation=f"answer {len(self.commands)}", exit_code=0, seconds=0.1)

    def changes(self) -> tuple[FileChange, ...]:
        return ()

    def outcome(self, reference: str) -> str:
        self.frozen.append(reference)
        return reference

    def close(self) -> None:
        pass


class Restless(FixedAgent):
    """Never hands in."""

    name = "restless"

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        return Action(thought="again", command="true")


def test_the_oracle_runs_the_solution_in_order_and_hands_in(task: TaskInstance) -> None:
    environment = RecordedEnvironment()
    trajectory = rollout(task, FIXED["oracle"], environment, RolloutConfig())
    assert tuple(environment.commands) == task.solution
    assert [step.action for step in trajectory.steps] == [*task.solution, ""]
    assert [step.observation for step in trajectory.steps] == ["", "answer 1", "answer 2"]
    assert trajectory.stop_reason == "submitted"


def test_the_final_state_is_frozen_under_the_id_that_was_known_before(task: TaskInstance) -> None:
    environment = RecordedEnvironment()
    trajectory = rollout(task, FIXED["noop"], environment, RolloutConfig())
    expected = trajectory_id(task.instance_id, "noop", None, {}, 0)
    assert (trajectory.trajectory_id, trajectory.state_reference, environment.frozen) == (
        expected,
        expected,
        [expected],
    )
    assert environment.commands == []


@pytest.mark.parametrize(
    ("budget", "reason"), [({"max_steps": 3}, "max_steps"), ({"max_seconds": 1e-9}, "max_seconds")]
)
def test_a_spent_budget_ends_the_attempt_and_keeps_its_state(
    task: TaskInstance, budget: dict[str, float], reason: str
) -> None:
    environment = RecordedEnvironment()
    trajectory = rollout(task, Restless(), environment, RolloutConfig.model_validate(budget))
    assert trajectory.stop_reason == reason
    assert len(trajectory.steps) == budget.get("max_steps", 1)
    assert len(environment.frozen) == 1


def test_a_budget_for_models_does_not_cut_a_reference_solution_short(task: TaskInstance) -> None:
    config = RolloutConfig(max_steps=1)
    assert len(task.solution) > 1
    budgets = config.for_attempt(task, FIXED["oracle"])
    trajectory = rollout(task, FIXED["oracle"], RecordedEnvironment(), budgets)
    assert trajectory.stop_reason == "submitted"
    assert [step.action for step in trajectory.steps if step.action] == list(task.solution)
    assert config.for_attempt(task, BashAgent(ScriptedModel([]), Sampling())) == config
    assert RolloutConfig(max_steps=9).for_attempt(task, FIXED["oracle"]).max_steps == 9


def test_a_broken_sandbox_leaves_no_trajectory(task: TaskInstance) -> None:
    environment = RecordedEnvironment(breaks_at=1)
    with pytest.raises(SandboxUnavailable):
        rollout(task, FIXED["oracle"], environment, RolloutConfig())
    assert environment.frozen == []
