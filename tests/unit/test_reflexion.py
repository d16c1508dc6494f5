"""Tries after tries: who is asked what, what a later try reads, and what is no failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from pipeline.agents import MODELLED
from pipeline.agents.reflexion import MEMORY
from pipeline.llm.protocol import Completion, ContextOverflow, Message, ModelUnavailable, Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.reflexion import BEGUN, Try, figures_of, tries
from pipeline.rollout import RolloutConfig, rollout
from pipeline.stages.game_verdicts import judged
from pipeline.types import Interface, TaskInstance, Trajectory, VerificationResult, Verifier, VerifierFile
from sandbox.errors import SandboxUnavailable
from tests.unit.games import WAY, LampGame, LampGames, lamp_task
from tests.unit.recorded_clients import RecordedModel, said

WAIT = "Thought: Hm.\nAction: wait"
SOLVED = tuple(f"Thought: On.\nAction: {action}" for action in WAY)
TASK = lamp_task()
BUDGETS = RolloutConfig(max_steps=3)


def verdict(task: TaskInstance, trajectory: Trajectory) -> VerificationResult:
    del task
    return judged(trajectory)


def tried(model: ScriptedModel | RecordedModel, most: int = 3, task: TaskInstance = TASK) -> list[Try]:
    return list(tries(task, model, Sampling(seed=7), LampGames(), verdict, BUDGETS, most=most))


def outcomes(found: Sequence[Try]) -> list[str]:
    return [one.result.outcome for one in found]


def test_a_critique_of_the_failed_try_enters_the_next_one_which_pays_for_it() -> None:
    model = ScriptedModel([WAIT] * 3 + ["I only waited.\nNext time I open the door.", *SOLVED])
    first, second = tried(model)
    assert outcomes([first, second]) == ["failed", "passed"]
    critic = model.asked[3]
    assert [one.role for one in critic] == ["user"]
    for text in (TASK.instruction, "You are in a hall.", "Action: wait", "Nothing happens.", "you had no steps left"):
        assert text in critic[0].content
    note = "- I only waited. Next time I open the door."
    assert all(note in chat[0].content for chat in model.asked[4:])
    assert not any("failed" in chat[0].content for chat in model.asked[:3])
    calls = [[call["purpose"] for call in step.extra["calls"]] for step in second.trajectory.steps]
    assert calls == [["critique", "decision"], ["decision"], ["decision"]]
    assert second.trajectory.steps[0].extra["try"] == 1
    assert second.trajectory.steps[0].extra["critiques"] == [note.removeprefix("- ")]
    assert second.trajectory.messages[0]["content"] == model.asked[-1][0].content


def test_each_try_is_a_trajectory_of_its_own() -> None:
    model = ScriptedModel(([WAIT] * 3 + ["Wait less."]) * 2 + [WAIT] * 3)
    found = tried(model)
    assert outcomes(found) == ["failed"] * 3 and len(model.asked) == 11
    assert [one.number for one in found] == [one.trajectory.sample for one in found] == [0, 1, 2]
    assert [one.trajectory.sampling["seed"] for one in found] == [7, 8, 9]
    assert len({one.trajectory.trajectory_id for one in found}) == 3
    assert {one.trajectory.backend for one in found} == {"lamps"}
    assert [one.result.trajectory_id for one in found] == [one.trajectory.trajectory_id for one in found]
    assert "critiques" not in found[0].trajectory.steps[0].extra


def test_a_pass_ends_the_tries_and_asks_no_critic() -> None:
    model = ScriptedModel(SOLVED)
    assert outcomes(tried(model)) == ["passed"] and len(model.asked) == 3


def test_the_first_try_is_that_of_react() -> None:
    first, other = ScriptedModel(SOLVED), ScriptedModel(SOLVED)
    tried(first, 1)
    rollout(TASK, MODELLED["react"](other, Sampling(seed=7)), LampGame(), BUDGETS)
    assert first.asked == other.asked
    direct = rollout(TASK, MODELLED["reflexion"](ScriptedModel(SOLVED), Sampling()), LampGame(), BUDGETS)
    assert direct.stop_reason == "done" and {"reflexion_critique_sha256", "react_game_sha256"} <= set(direct.details)


def test_the_latest_critiques_are_read_and_long_or_empty_ones_do_no_harm() -> None:
    notes = ["first", "", "<think>DONE</think>third\nAction: take lamp", "x" * 50_000, "last"]
    model = ScriptedModel([text for note in notes for text in (*[WAIT] * 3, note)] + [WAIT] * 3)
    found = tried(model, len(notes) + 1)
    read = found[-1].trajectory.steps[0].extra["critiques"]
    assert len(read) == MEMORY and (read[0], read[-1]) == ("third Action: take lamp", "last")
    assert len(read[1]) < 1_000
    assert found[2].trajectory.steps[0].extra == found[2].trajectory.steps[0].extra | {"try": 2, "critiques": ["first"]}
    assert found[-1].trajectory.steps[0].action == "wait"


def test_neither_the_solution_nor_the_tests_nor_scores_are_shown_to_anybody() -> None:
    file = VerifierFile(path="test_state.py", content="assert secret_of_the_tests")
    verifier = Verifier(kind="environment", files=(file,), command="")
    task = TASK.model_copy(update={"solution": ("use the secret way",), "verifier": verifier})
    model = ScriptedModel([WAIT] * 3 + ["Hm."] + [WAIT] * 3)
    failed = tried(model, 2, task)
    shown = "\n".join(one.content for chat in model.asked for one in chat)
    assert failed[0].result.tests[0].message and failed[0].result.tests[0].message not in shown
    assert "secret" not in shown and "score" not in shown and "reward" not in shown


class Breaking:
    """Games whose sandbox breaks at the first `times` openings."""

    name = "lamps"

    def __init__(self, times: int) -> None:
        self.left = times

    @contextmanager
    def opened(self, instance: TaskInstance, interface: Interface) -> Iterator[LampGame]:
        self.left -= 1
        if self.left >= 0:
            raise SandboxUnavailable("the process is gone")
        with LampGames().opened(instance, interface) as game:
            yield game


def test_a_sandbox_that_breaks_is_no_failure_and_leads_to_no_critique() -> None:
    model = ScriptedModel(SOLVED)
    found = list(tries(TASK, model, Sampling(), Breaking(BEGUN - 1), verdict, BUDGETS, most=3))
    assert outcomes(found) == ["passed"] and found[0].number == 0 and len(model.asked) == 3
    with pytest.raises(SandboxUnavailable):
        next(tries(TASK, model, Sampling(), Breaking(BEGUN), verdict, BUDGETS, most=3))
    assert len(model.asked) == 3


def test_a_verdict_that_breaks_is_asked_for_again_without_another_try() -> None:
    faults = [SandboxUnavailable("gone")]

    def breaks_once(task: TaskInstance, trajectory: Trajectory) -> VerificationResult:
        if faults:
            raise faults.pop()
        return verdict(task, trajectory)

    model = ScriptedModel(SOLVED)
    assert outcomes(list(tries(TASK, model, Sampling(), LampGames(), breaks_once, BUDGETS, most=2))) == ["passed"]
    assert len(model.asked) == 3


def test_without_a_verdict_nothing_is_tried_again() -> None:
    def broken(task: TaskInstance, trajectory: Trajectory) -> VerificationResult:
        return verdict(task, trajectory).model_copy(update={"outcome": "error", "failure_class": "verifier_broken"})

    model = ScriptedModel([WAIT] * 3)
    found = list(tries(TASK, model, Sampling(), LampGames(), broken, BUDGETS, most=3))
    assert outcomes(found) == ["error"] and len(model.asked) == 3


def test_a_model_that_is_gone_leaves_as_it_is_and_what_was_tried_was_given_out() -> None:
    found = tries(TASK, ScriptedModel([WAIT] * 3), Sampling(), LampGames(), verdict, BUDGETS, most=3)
    assert next(found).result.outcome == "failed"
    with pytest.raises(ModelUnavailable):
        next(found)


def test_a_long_try_is_shortened_for_the_critic() -> None:
    class Small(RecordedModel):
        def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            self.context = 3_500 if "Your try:" in messages[0].content else None
            return super().complete(messages, sampling)

    model = Small(said("Thought: " + "on " * 300 + "\nAction: wait"))
    budgets = RolloutConfig(max_steps=8)
    found = list(tries(TASK, model, Sampling(), LampGames(), verdict, budgets, most=2))
    assert len(found) == 2 and model.refused
    critic = next(chat for chat in model.asked if "Your try:" in chat[0].content)
    assert "Action: wait" in critic[0].content


def test_a_critic_whose_context_holds_nothing_ends_the_tries() -> None:
    model = ScriptedModel([*[WAIT] * 3, *[ContextOverflow("too long")] * 9])
    assert outcomes(tried(model)) == ["failed"]


def test_strict_pass_at_1_counts_the_first_tries_alone() -> None:
    solved_late = tried(ScriptedModel([WAIT] * 3 + ["Hm.", *SOLVED]))
    solved = tried(ScriptedModel(SOLVED))
    never = tried(ScriptedModel(([WAIT] * 3 + ["Hm."]) * 2 + [WAIT] * 3))
    unknown = [
        Try(solved[0].trajectory, solved[0].result.model_copy(update={"outcome": "error"})),
    ]
    found = figures_of([solved_late, solved, never, unknown], 3)
    assert (found.tasks, found.passed_first, found.passed_within) == (3, 1, (2, 2))
