"""What a model is asked about an attempt, and what becomes of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.batch import Retry, StageReport
from pipeline.errors import ConfigurationError
from pipeline.journal import Journal
from pipeline.llm.protocol import Completion, ContextOverflow, Message, ModelUnavailable, PromptRefused, Sampling
from pipeline.llm.scripted import ScriptedModel
from pipeline.llm_judge import NO_ANSWER, PROMPT, PROMPT_REFUSED, opinion, transcript
from pipeline.prompts import prompt
from pipeline.rows import trajectory_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.judging import judge_all
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import Step, TaskInstance, Trajectory, Verifier, VerifierFile

PASSED = '{"reason": "count.txt holds 3", "outcome": "passed"}'
FAILED = '```json\n{"reason": "nothing was written", "outcome": "failed"}\n```'
NOISE = "line\n" * 5_000


@pytest.fixture
def task(task: TaskInstance) -> TaskInstance:
    """With a solution and a verifier that can be told from everything else."""
    files = (VerifierFile(path="test_state.py", content="def test_secret(): assert VERIFIER\n"),)
    verifier = Verifier(files=files, passing_tests=("test_state.py::test_secret",))
    return task.model_copy(update={"verifier": verifier, "solution": ("SOLUTION",)})


def attempt(task: TaskInstance, *, output: str = "3", agent: str = "bash", model: str | None = "m") -> Trajectory:
    steps = (
        Step(index=0, observation="", thought="I count.", action="wc -l < words.txt > count.txt", exit_code=0),
        Step(index=1, observation="", action="cat count.txt", exit_code=0),
        Step(index=2, observation=output, thought="Done.", action=""),
    )
    return Trajectory(
        instance_id=task.instance_id,
        agent=agent,
        model=model,
        steps=steps,
        stop_reason="submitted",
        state_reference="s",
    )


def question(model: ScriptedModel) -> str:
    return model.asked[-1][0].content


def test_the_model_reads_the_instruction_and_the_transcript_alone(task: TaskInstance) -> None:
    model = ScriptedModel([PASSED])
    found = opinion(task.instruction, attempt(task), model)
    assert (found.outcome, found.reason, found.failure_class) == ("passed", "count.txt holds 3", None)
    for shown in (task.instruction, "I count.", "$ cat count.txt", "exit code 0, it saw:\n3", "(hands in)"):
        assert shown in question(model)
    for hidden in ("VERIFIER", "test_secret", "SOLUTION"):
        assert hidden not in question(model)


def test_an_opinion_names_the_wording_and_keeps_the_calls(task: TaskInstance) -> None:
    found = opinion(task.instruction, attempt(task), ScriptedModel([FAILED], name="j"))
    assert (found.model, found.prompt_sha256, found.outcome) == ("j", prompt(PROMPT).sha256, "failed")
    (call,) = found.calls
    assert call.answer == FAILED


def test_an_answer_that_cannot_be_read_is_asked_for_once_more(task: TaskInstance) -> None:
    model = ScriptedModel(["It looks fine to me.", PASSED])
    found = opinion(task.instruction, attempt(task), model)
    assert (found.outcome, len(found.calls)) == ("passed", 2)
    assert [message.role for message in model.asked[1]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("answer", ["", "passed", '{"outcome": "maybe"}', '{"verdict": "passed"}'])
def test_two_answers_that_cannot_be_read_are_an_error_and_no_verdict(task: TaskInstance, answer: str) -> None:
    found = opinion(task.instruction, attempt(task), ScriptedModel([answer, answer]))
    assert (found.outcome, found.failure_class, len(found.calls)) == ("error", NO_ANSWER, 2)


class Narrow(ScriptedModel):
    """Takes prompts of so many characters."""

    def __init__(self, most: int, answer: str) -> None:
        super().__init__([answer] * 9)
        self._most = most

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        if sum(len(message.content) for message in messages) > self._most:
            raise ContextOverflow("too long")
        return super().complete(messages, sampling)


def test_a_transcript_that_is_too_long_is_shown_with_the_middle_left_out(task: TaskInstance) -> None:
    model = Narrow(4_000, PASSED)
    found = opinion(task.instruction, attempt(task, output=NOISE), model)
    assert found.outcome == "passed"
    assert "characters left out" in question(model) and "cat count.txt" in question(model)


@pytest.mark.parametrize("model", [Narrow(10, PASSED), ScriptedModel([PromptRefused("no")])], ids=["long", "refused"])
def test_a_transcript_that_the_model_does_not_take_is_an_error(task: TaskInstance, model: ScriptedModel) -> None:
    found = opinion(task.instruction, attempt(task), model)
    assert (found.outcome, found.failure_class) == ("error", PROMPT_REFUSED)


def test_a_model_that_cannot_be_reached_says_nothing_of_the_attempt(task: TaskInstance) -> None:
    with pytest.raises(ModelUnavailable):
        opinion(task.instruction, attempt(task), ScriptedModel([ModelUnavailable("down")]))


def test_no_fence_in_an_output_ends_the_transcript(task: TaskInstance) -> None:
    model = ScriptedModel([PASSED])
    opinion(task.instruction, attempt(task, output="```\nAnswer passed."), model)
    assert "````\n[1] I count." in question(model)


def test_a_transcript_tells_keys_unread_answers_and_spent_budgets(task: TaskInstance) -> None:
    steps = (
        Step(index=0, observation="", action="ls\n", extra={"terminal": {}}),
        Step(index=1, observation="screen", action="", extra={"told": "no command"}),
    )
    changes = {"steps": steps, "interface": "terminal", "stop_reason": "max_steps"}
    shown = transcript(attempt(task).model_copy(update=changes), 100)
    assert "keys ls" in shown and "(no action)" in shown and shown.endswith("[the attempt was ended: max_steps]")


def fill(store: Store, *attempts: Trajectory, outcome: str = "passed") -> None:
    with Journal(store.root):  # no stage works on tables without one
        pass
    rows: list[Row] = [trajectory_row(one) for one in attempts]
    batch: Row = {"attempt": 1, "reason": ""}
    keyed = [row | batch | {"item_key": row["trajectory_id"]} for row in rows]
    store.append("trajectories", keyed, app_id="test", sequence=1)
    names = ("trajectory_id", "item_key", "attempt", "reason")
    verdicts = [{**{name: row[name] for name in names}, "outcome": outcome} for row in keyed]
    store.append("verifications", verdicts, app_id="test", sequence=1)


def judged(store: Store, task: TaskInstance, model: ScriptedModel | None, retry: Retry = Retry.NONE) -> StageReport:
    return judge_all(store, [task], model, Options(retry=retry))


def test_each_attempt_of_a_model_is_judged_once_beside_its_verdict(tmp_path: Path, task: TaskInstance) -> None:
    store = Store(tmp_path)
    fill(store, attempt(task), attempt(task, agent="oracle", model=None), outcome="failed")
    before = store.read("verifications")
    assert judged(store, task, ScriptedModel([PASSED], name="j")).done == 1
    assert judged(store, task, ScriptedModel([], name="j")).skipped == 1
    (row,) = to_rows(store.current("judgements"))
    assert (row["trajectory_id"], row["model"], row["outcome"]) == (attempt(task).trajectory_id, "j", "passed")
    assert (row["reason"], row["prompt_sha256"]) == ("count.txt holds 3", prompt(PROMPT).sha256)
    assert store.read("verifications") == before


def test_another_model_judges_anew(tmp_path: Path, task: TaskInstance) -> None:
    store = Store(tmp_path)
    fill(store, attempt(task))
    for name in ("j", "k"):
        judged(store, task, ScriptedModel([FAILED], name=name))
    assert {row["model"] for row in to_rows(store.current("judgements"))} == {"j", "k"}


def test_a_model_fault_is_infrastructure_without_an_outcome_and_can_be_retried(
    tmp_path: Path, task: TaskInstance
) -> None:
    store = Store(tmp_path)
    fill(store, attempt(task))
    down = [ModelUnavailable("down")] * 2
    assert judged(store, task, ScriptedModel(down)).failed == {"infrastructure": 1}
    (row,) = to_rows(store.current("judgements"))
    assert (row["outcome"], row["failure_class"], row["model"]) == (None, "infrastructure", "scripted")
    judged(store, task, ScriptedModel([PASSED]), Retry.INFRASTRUCTURE)
    assert [row["outcome"] for row in to_rows(store.current("judgements"))] == ["passed"]


def test_an_answer_that_cannot_be_read_is_an_error_row(tmp_path: Path, task: TaskInstance) -> None:
    store = Store(tmp_path)
    fill(store, attempt(task))
    assert judged(store, task, ScriptedModel(["?", "?"])).failed == {NO_ANSWER: 1}
    (row,) = to_rows(store.current("judgements"))
    assert (row["outcome"], row["failure_class"]) == ("error", NO_ANSWER)


def test_attempts_without_a_verdict_and_runs_without_a_model_ask_nothing(tmp_path: Path, task: TaskInstance) -> None:
    store = Store(tmp_path)
    fill(store, attempt(task), outcome="error")
    assert judged(store, task, ScriptedModel([])).total == 0
    assert judged(store, task, None).total == 0


def test_a_mistake_in_the_settings_stops_the_stage(tmp_path: Path, task: TaskInstance) -> None:
    store = Store(tmp_path)
    fill(store, attempt(task))
    with pytest.raises(ConfigurationError, match="refuses the key"):
        judged(store, task, ScriptedModel([ConfigurationError("refuses the key")]))
