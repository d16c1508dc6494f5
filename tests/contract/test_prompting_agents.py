"""Agents that think aloud play a real game in the one rollout loop: TextCraft, with answers made of its gold path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.agents import MODELLED
from pipeline.llm.protocol import Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.reflexion import tries
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import TaskInstance
from training.environments.suite import GameSuite


@pytest.fixture(scope="module")
def suite() -> Iterator[GameSuite]:
    made = GameSuite("textcraft", 1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def crafting(suite: GameSuite) -> TaskInstance:
    """A task of some steps."""
    return next(task for task, _ in suite.instances(("unseen",)) if len(task.solution) >= 4)


def acted(action: str) -> str:
    return f"Thought: This is next.\nAction: {action}"


def test_react_solves_it_and_its_mistakes_are_read_back(suite: GameSuite, crafting: TaskInstance) -> None:
    model = ScriptedModel([acted("craft a castle"), "I give up.\nOr not.", *map(acted, crafting.solution)])
    with suite.opened(crafting, "shell") as environment:
        trajectory = rollout(crafting, MODELLED["react"](model, Sampling()), environment, RolloutConfig())
    assert suite.judged(crafting, trajectory).outcome == "passed"
    assert trajectory.steps[0].extra["rejected"] is True and "told" in trajectory.steps[1].extra
    assert [step.action for step in trajectory.steps[2:]] == list(crafting.solution)
    assert crafting.instruction in model.asked[0][0].content and "Could not" in model.asked[1][-1].content


def test_adapt_solves_it_by_a_part_for_each_action(suite: GameSuite, crafting: TaskInstance) -> None:
    first, *others = crafting.solution
    plan = f"1. {first}\n2. the rest\nJoin: AND"
    answers = [acted("inventory"), acted("FAILED"), plan, acted(first), acted("DONE"), *map(acted, others)]
    model = ScriptedModel(answers)
    with suite.opened(crafting, "shell") as environment:
        trajectory = rollout(crafting, MODELLED["adapt"](model, Sampling()), environment, RolloutConfig())
    assert suite.judged(crafting, trajectory).outcome == "passed"
    purposes = [call["purpose"] for step in trajectory.steps for call in step.extra["calls"]]
    assert purposes.count("plan") == 1 and purposes.count("decision") == len(answers) - 1
    assert f"Do now only this: {first}\n" in model.asked[3][0].content
    assert all(crafting.instruction in chat[0].content for chat in model.asked)


def test_reflexion_solves_it_in_the_second_try(suite: GameSuite, crafting: TaskInstance) -> None:
    budgets = RolloutConfig(max_steps=len(crafting.solution))
    lost = [acted("inventory")] * budgets.max_steps
    model = ScriptedModel([*lost, "I looked and crafted nothing.", *map(acted, crafting.solution)])
    first, second = tries(crafting, model, Sampling(), suite, suite.judged, budgets, most=3)
    assert (first.result.outcome, second.result.outcome) == ("failed", "passed")
    assert "Inventory" in model.asked[len(lost)][0].content
    assert second.trajectory.steps[0].extra["critiques"] == ["I looked and crafted nothing."]
