"""The agent that splits what it failed at: how plans are read and composed, and when which question is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.agents import MODELLED
from pipeline.agents.adapt import DEPTH, MOVES, STEPS, WHOLE
from pipeline.agents.adapt_plan import MOST_PARTS, Level, NoPlan, after, read_plan
from pipeline.agents.protocol import ContextFull
from pipeline.attempts import Attempt, SamplesConfig
from pipeline.batch import Retry
from pipeline.environment import StepOutcome
from pipeline.journal import Journal
from pipeline.llm.protocol import Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.rollout import RolloutConfig, rollout
from pipeline.rollout_report import rollout_report
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out_in
from pipeline.tables import Store
from pipeline.types import TaskInstance, Trajectory
from tests.unit.games import WAY, LampGame, LampGames, lamp_task
from tests.unit.recorded_clients import Acting, RecordedModel, said

AND = "1. one\n2. two\nJoin: AND"
OR = "1. one\n2. two\nJoin: OR"
OPEN, EAST, TAKE = (f"Thought: On.\nAction: {action}" for action in WAY)
DONE, FAILED = "Thought: It is.\nAction: DONE", "Thought: It cannot be.\nAction: FAILED"


class TestPlans:
    @pytest.mark.parametrize(
        "answer",
        [
            AND,
            "1) one\n2) two\nJOIN: and",
            "Here is the plan:\n\n**1.** one\n**2.** two\n\n**Join:** AND",
            "Step 1: one\nStep 2: two\nExecution order: (Step 1 AND Step 2)",
            "- one\n- two",
            "1. one AND\n2. two",
            "1. one\nAND\n2. `two`",
            "1. <one>\n2. <two>\n3. Join: <AND>",
            "<think>1. other\nJoin: OR</think>\n1. one\n2. two",
            "1.1 - one\r\n1.2 - two\r\nJoined by: AND\r\n",
        ],
    )
    def test_a_plan_is_read_however_it_is_written(self, answer: str) -> None:
        assert read_plan(answer, WHOLE) == Level(join="and", parts=("one", "two"))

    def test_or_is_read_where_it_is_said_and_not_out_of_a_part(self) -> None:
        assert read_plan(OR, WHOLE).join == "or"
        assert read_plan("1. one\nOR\n2. two", WHOLE).join == "or"
        assert read_plan("1. get an axe or a saw\n2. cut", WHOLE).join == "and"

    @pytest.mark.parametrize(
        ("answer", "fault"),
        [
            ("", "no numbered line"),
            ("I would open the door.", "no numbered line"),
            ("1. \n2. ...", "no numbered line"),
            ("\n".join(f"{number}. part" for number in range(MOST_PARTS + 1)), "the most"),
            ("1. one\n2. two\nJoin: AND / OR", "both"),
            (f"1. {WHOLE}", "the one that was to be split"),
        ],
    )
    def test_what_is_no_plan_says_why(self, answer: str, fault: str) -> None:
        with pytest.raises(NoPlan, match=fault):
            read_plan(answer, WHOLE)

    def test_a_part_without_an_end_is_cut(self) -> None:
        assert len(read_plan("1. " + "on " * 10_000, WHOLE).parts[0]) == 300


def level(join: str, at: int) -> Level:
    return Level.model_validate({"join": join, "parts": ("a", "b"), "at": at})


@pytest.mark.parametrize(
    ("levels", "succeeded", "at"),
    [
        ([], True, None),
        ([], False, None),
        ([("and", 0)], True, [1]),
        ([("and", 0)], False, None),
        ([("and", 1)], True, None),
        ([("or", 0)], False, [1]),
        ([("or", 0)], True, None),
        ([("or", 1)], False, None),
        ([("and", 0), ("and", 1)], True, [1]),
        ([("and", 0), ("or", 0)], True, [1]),
        ([("or", 0), ("and", 0)], False, [1]),
        ([("or", 0), ("and", 1)], True, None),
        ([("and", 0), ("or", 1)], False, None),
        ([("or", 0), ("and", 1), ("or", 1)], False, [1]),
    ],
)
def test_all_parts_of_and_and_one_of_or_make_a_success(
    levels: Sequence[tuple[str, int]], succeeded: bool, at: list[int] | None
) -> None:
    found = after([level(*one) for one in levels], succeeded)
    assert (None if found is None else [one.at for one in found]) == at


def played(*answers: str, max_steps: int = 30) -> tuple[Trajectory, list[str]]:
    """An attempt in the lamp game, and the first message of every prompt of it."""
    model = ScriptedModel(answers)
    agent = MODELLED["adapt"](model, Sampling())
    done = rollout(lamp_task(), agent, LampGame(), RolloutConfig(max_steps=max_steps))
    assert len(model.asked) == len(answers)
    return done, [chat[0].content for chat in model.asked]


def parts(asked: Sequence[str]) -> list[str]:
    """What each question is about, `split` before what is to be split."""
    found = []
    for text in asked:
        plan = "The part to split: " in text
        begun = text.split("The part to split: " if plan else "Do now only this: ")[1]
        found.append(("split " if plan else "") + begun.split("\n")[0])
    return found


def purposes(done: Trajectory) -> list[list[str]]:
    return [[call["purpose"] for call in step.extra["calls"]] for step in done.steps]


def test_the_report_tells_the_tokens_of_plans_apart(tmp_path: Path) -> None:
    answers = {1: FAILED, 2: AND, 3: OPEN, 4: EAST, 5: TAKE}
    agent = MODELLED["adapt"](RecordedModel(answer=answers.__getitem__), Sampling())
    store = Store(tmp_path)
    Journal(tmp_path).close()
    attempts = [Attempt(lamp_task(), agent, 0)]
    roll_out_in(store, attempts, LampGames(), RolloutConfig(), Options(retry=Retry.NONE))
    (found,) = rollout_report(store, SamplesConfig(count=1)).policies
    told = {
        name: (asked.calls, asked.prompt_tokens, asked.completion_tokens) for name, asked in found.by_purpose.items()
    }
    assert (found.agent, told) == ("adapt", {"decision": (4, 40, 8), "plan": (1, 10, 2)})


def test_without_a_failure_nothing_is_split() -> None:
    done, asked = played(OPEN, EAST, TAKE)
    assert (done.stop_reason, [step.action for step in done.steps], done.messages) == ("done", list(WAY), ())
    assert parts(asked) == [WHOLE] * 3 and purposes(done) == [["decision"]] * 3


def test_parts_joined_by_and_are_done_in_turn_each_with_a_history_of_its_own() -> None:
    model = ScriptedModel((FAILED, AND, OPEN, DONE, EAST, TAKE))
    done = rollout(lamp_task(), MODELLED["adapt"](model, Sampling()), LampGame(), RolloutConfig(max_steps=9))
    assert (done.stop_reason, [step.action for step in done.steps]) == ("done", list(WAY))
    assert parts([chat[0].content for chat in model.asked]) == [WHOLE, f"split {WHOLE}", "one", "one", "two", "two"]
    assert purposes(done) == [["decision", "plan", "decision"], ["decision", "decision"], ["decision"]]
    second = [one.content for one in model.asked[4]]
    assert len(second) == 1 and second[0].endswith("Observation: You did it: open door.")
    assert "Take lamp 0." in second[0]
    assert len(model.asked[5]) == 3
    places = [step.extra["place"] for step in done.steps]
    assert [(place["levels"][0]["at"], place["begun"]) for place in places] == [(0, 0), (1, 1), (1, 1)]


def test_the_first_success_among_parts_joined_by_or_ends_them() -> None:
    tried, asked = played(FAILED, OR, OPEN, DONE)
    assert parts(asked) == [WHOLE, f"split {WHOLE}", "one", "one"]
    assert (tried.stop_reason, tried.steps[-1].action) == ("submitted", "")
    nested = "1. deep\nJoin: AND"
    _, asked = played(FAILED, OR, OPEN, FAILED, nested, FAILED, "1. deeper", EAST, FAILED, TAKE)
    split = ["split one", "deep", "split deep", "deeper", "deeper", "two"]
    assert parts(asked) == [WHOLE, f"split {WHOLE}", "one", "one", *split]


def test_at_the_greatest_depth_a_failure_stays_one_and_the_attempt_is_handed_in() -> None:
    answers = [FAILED, "1. a", OPEN, FAILED, "1. b", OPEN, FAILED, "1. c", OPEN, FAILED]
    done, asked = played(*answers)
    assert parts(asked) == [WHOLE, f"split {WHOLE}", "a", "a", "split a", "b", "b", "split b", "c", "c"]
    assert sum(one.startswith("split") for one in parts(asked)) == DEPTH
    assert done.stop_reason == "submitted"


def test_used_up_steps_of_a_part_are_a_failure() -> None:
    wait = "Thought: Hm.\nAction: wait"
    done, asked = played(*[wait] * STEPS, AND, OPEN, EAST, TAKE)
    assert parts(asked)[STEPS : STEPS + 2] == [f"split {WHOLE}", "one"]
    assert "Done for it so far: wait; wait" in asked[STEPS]
    assert (done.stop_reason, len(done.steps)) == ("done", STEPS + 3)


def test_a_plan_that_cannot_be_read_is_asked_for_once_more() -> None:
    done, asked = played(FAILED, "Hm.", AND, OPEN, EAST, TAKE)
    assert asked[2].endswith("Your last answer could not be used: it has no numbered line.")
    assert done.stop_reason == "done"
    lost, asked = played(OPEN, FAILED, "Hm.", "1. a\nJoin: AND OR")
    assert (lost.stop_reason, len(lost.steps)) == ("submitted", 2)


def test_a_plan_that_was_cut_off_is_not_used(task: TaskInstance) -> None:
    answers = [said(FAILED), said("1. one\n2. tw", finish_reason="length"), said("1. all"), said("Action: ls")]
    model = RecordedModel(*answers)
    step = Acting(task, MODELLED["adapt"](model, Sampling()), lambda command: outcome("")).turn()
    assert step.extra["place"]["levels"][0]["parts"] == ["all"]
    assert "it was cut off" in model.asked[2][0].content


def test_a_model_that_only_gives_up_uses_up_its_steps() -> None:
    answers = [FAILED, OR, FAILED, OR, FAILED, OR, FAILED]
    done, asked = played(*answers, max_steps=1)
    assert (done.stop_reason, done.steps[0].extra["told"]) == ("max_steps", "You are in a hall. There is a door.")
    assert len(purposes(done)[0]) == MOVES + DEPTH
    assert parts(asked)[-1] == "one"


def test_a_part_that_begins_after_such_a_step_reads_what_is_seen() -> None:
    _, asked = played(FAILED, OR, FAILED, OR, FAILED, OR, FAILED, OPEN, EAST, TAKE)
    assert parts(asked)[-3:] == ["two"] * 3
    assert asked[-3].endswith("Observation: You are in a hall. There is a door.")


def test_an_answer_without_an_action_is_told_so_and_costs_a_step_of_the_part() -> None:
    done, asked = played("Hm, let me see.\nWell.", OPEN, EAST, TAKE)
    assert "no action" in done.steps[0].extra["told"] and done.steps[0].extra["place"]["begun"] == 0
    assert parts(asked) == [WHOLE] * 4


def outcome(text: str) -> StepOutcome:
    return StepOutcome(observation=text, exit_code=2, seconds=0.1)


def test_a_terminal_shows_exit_codes_to_both_and_long_outputs_are_cut_until_they_fit(task: TaskInstance) -> None:
    answers = {1: "Action: cat big", 2: FAILED, 3: AND, 4: "Action: ls", 5: DONE}
    model = RecordedModel(context=5_000, answer=lambda number: answers.get(number, DONE))
    attempt = Acting(
        task, MODELLED["adapt"](model, Sampling()), lambda command: outcome("begin" + "x" * 50_000 + "end")
    )
    attempt.turn()
    assert attempt.turn().action == "ls" and model.refused
    for chat in model.asked[1:4]:
        assert "[exit code 2]\nbegin" in chat[-1].content and "characters left out]" in chat[-1].content
    attempt.turn()
    assert attempt.submitted


def test_a_context_that_does_not_even_hold_the_task_ends_the_attempt(task: TaskInstance) -> None:
    with pytest.raises(ContextFull):
        MODELLED["adapt"](RecordedModel("look", context=10), Sampling()).act(task, (), "")
