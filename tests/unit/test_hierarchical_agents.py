"""Agents of several policies that read no history: when each is asked, what it reads, and what is kept for later."""

from __future__ import annotations

import pytest

from pipeline.agents import MODELLED
from pipeline.agents.protocol import Agent, ContextFull
from pipeline.environment import Environment, StepOutcome
from pipeline.hierarchy import prompts
from pipeline.hierarchy.path import NOTHING
from pipeline.llm.protocol import Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import TaskInstance, Trajectory
from sandbox.types import FileChange
from tests.unit.recorded_clients import Acting, RecordedModel

ROOMS = {"open door": "The door is open.", "go north": "A kitchen.", "take jug": "You have the jug."}


class Rooms:
    """A game that rejects what it does not know and is over when the jug is taken."""

    def reset(self) -> str:
        return "A hall."

    def step(self, command: str) -> StepOutcome:
        extra = {"rejected": command not in ROOMS}
        seen = ROOMS.get(command, "No known action.")
        return StepOutcome(observation=seen, exit_code=None, seconds=0.0, done=command == "take jug", extra=extra)

    def changes(self) -> tuple[FileChange, ...]:
        return ()

    def outcome(self, reference: str) -> str:
        del reference
        return ""

    def close(self) -> None: ...


def played(task: TaskInstance, name: str, *answers: str) -> tuple[Trajectory, list[str]]:
    """An attempt in the rooms, and every prompt of it."""
    model = ScriptedModel(answers)
    environment: Environment = Rooms()
    done = rollout(task, MODELLED[name](model, Sampling()), environment, RolloutConfig(max_steps=5))
    assert all([one.role for one in messages] == ["user"] for messages in model.asked)
    return done, [messages[0].content for messages in model.asked]


def purposes(done: Trajectory) -> list[list[str]]:
    return [[call["purpose"] for call in step.extra["calls"]] for step in done.steps]


def test_the_planner_is_asked_at_the_start_and_after_a_finished_sub_goal_only(task: TaskInstance) -> None:
    answers = ("reach the kitchen", "open door; false", "go north; true", "get the jug", "take jug; false")
    done, asked = played(task, "planner_executor", *answers)
    what = task.instruction
    assert asked == [
        prompts.planner(what, (), "A hall."),
        prompts.executor("reach the kitchen", "A hall."),
        prompts.executor("reach the kitchen", "The door is open."),
        prompts.planner(what, ("open door", "go north"), "A kitchen."),
        prompts.executor("get the jug", "A kitchen."),
    ]
    assert purposes(done) == [["plan", "decision"], ["decision"], ["plan", "decision"]]
    kept = [(step.extra["subgoal"], step.extra["finished"]) for step in done.steps]
    assert kept == [("reach the kitchen", False), ("reach the kitchen", True), ("get the jug", False)]
    assert (done.stop_reason, done.messages) == ("done", ())


def test_progress_stands_for_the_history_and_finished_sub_tasks_for_the_ones_before(task: TaskInstance) -> None:
    answers = ("reach the kitchen", "open door; False", "The door is open.", "go north; True", "In the kitchen.")
    done, asked = played(task, "step_hrl", *answers, "get the jug", "take jug; True")
    goal, what = "reach the kitchen", task.instruction
    assert asked == [
        prompts.high(what, (), NOTHING, "A hall."),
        prompts.low(goal, "A hall.", NOTHING),
        prompts.progress(goal, NOTHING, "open door", "The door is open."),
        prompts.low(goal, "The door is open.", "The door is open."),
        prompts.progress(goal, "The door is open.", "go north", "A kitchen."),
        prompts.high(what, (goal,), "In the kitchen.", "A kitchen."),
        prompts.low("get the jug", "A kitchen.", NOTHING),
    ]
    assert purposes(done) == [["plan", "decision"], ["progress", "decision"], ["progress", "plan", "decision"]]
    assert [step.extra["progress"] for step in done.steps] == [NOTHING, "The door is open.", NOTHING]
    assert [step.extra.get("last_progress") for step in done.steps] == [NOTHING, None, "In the kitchen."]


@pytest.mark.parametrize("name", ["planner_executor", "step_hrl"])
def test_an_answer_that_is_no_action_is_sent_as_none_and_rejected(task: TaskInstance, name: str) -> None:
    between = ("Nothing happened.",) if name == "step_hrl" else ()
    done, asked = played(task, name, "get the jug", "I would take the jug", *between, "take jug; true")
    first = done.steps[0]
    assert (first.action, first.extra["finished"], first.extra["rejected"]) == ("None", False, True)
    assert (done.steps[1].action, done.steps[1].extra["subgoal"]) == ("take jug", "get the jug")
    assert "No known action." in asked[-1]


@pytest.mark.parametrize("name", ["planner_executor", "step_hrl"])
def test_done_instead_of_a_sub_goal_hands_in(task: TaskInstance, name: str) -> None:
    between = ("The door is open.",) if name == "step_hrl" else ()
    done, asked = played(task, name, "open it", "open door; true", *between, "DONE")
    assert (done.stop_reason, [step.action for step in done.steps]) == ("submitted", ["open door", ""])
    assert asked[-1].endswith("Seen now: The door is open.")
    immediately, _ = played(task, name, "DONE")
    assert (immediately.stop_reason, len(immediately.steps)) == ("submitted", 1)


def acting(task: TaskInstance, agent: Agent, output: str) -> Acting:
    return Acting(task, agent, lambda command: StepOutcome(observation=output, exit_code=2, seconds=0.1))


@pytest.mark.parametrize("name", ["planner_executor", "step_hrl"])
def test_a_terminal_shows_exit_codes_and_a_long_output_is_cut_until_it_fits(task: TaskInstance, name: str) -> None:
    answers = {1: "look", 2: "cat big; false"}
    model = RecordedModel(context=4_000, answer=lambda number: answers.get(number, "ls; true"))
    attempt = acting(task, MODELLED[name](model, Sampling()), "begin" + "x" * 50_000 + "end")
    attempt.turn()
    assert attempt.turn().action == "ls"
    assert len(model.refused) == (1 if name == "planner_executor" else 2)
    last = model.asked[-1][0].content
    assert "[exit code 2]\nbegin" in last and "characters left out]" in last and last.endswith("xend")


@pytest.mark.parametrize("name", ["planner_executor", "step_hrl"])
def test_a_context_that_does_not_even_hold_the_task_ends_the_attempt(task: TaskInstance, name: str) -> None:
    agent = MODELLED[name](RecordedModel("look", context=10), Sampling())
    with pytest.raises(ContextFull):
        agent.act(task, (), "")


def test_the_policy_is_named_by_the_hashes_of_its_prompts(task: TaskInstance) -> None:
    details = MODELLED["step_hrl"](RecordedModel("DONE"), Sampling()).details
    assert {"step_high_sha256", "step_low_sha256", "step_progress_sha256"} < set(details)
