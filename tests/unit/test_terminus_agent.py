"""The agent that types keys: what is taken for an answer, how completion is confirmed, what a full context leads to."""

from __future__ import annotations

import json

import pytest

from pipeline.agents.calling import prompt_sha256
from pipeline.agents.protocol import ContextFull
from pipeline.agents.terminus import CONFIRM, TerminusAgent
from pipeline.environment import StepOutcome
from pipeline.llm.protocol import Sampling
from pipeline.terminal_environment import BATCH
from pipeline.types import TaskInstance
from tests.unit.recorded_clients import Acting, RecordedModel, alternates, said


def reply(*keystrokes: str, complete: bool = False, **fields: object) -> str:
    commands = [{"keystrokes": one, "duration": 0.1} for one in keystrokes]
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": complete, **fields})


def acting(task: TaskInstance, model: RecordedModel, screen: str = "screen") -> Acting:
    def observe(command: str) -> StepOutcome:
        BATCH.validate_json(command)
        return StepOutcome(observation=screen, exit_code=None, seconds=0.1)

    turns = Acting(task, TerminusAgent(model, Sampling(seed=3)), observe)
    turns.observation = "Current Terminal Screen:\n# "
    return turns


def typed(action: str) -> list[tuple[str, float]]:
    return [(one.keystrokes, one.duration) for one in BATCH.validate_json(action)]


LS = reply("ls\n")
READ = {
    "bare": LS,
    "fenced": f"```json\n{LS}\n```",
    "fenced without language": f"```\n{LS}\n```",
    "between sentences": f"I look first {{as told}}.\n{LS}\nThen we see.",
    "after a thought": f"<think>{reply('rm -r /')}</think>{LS}",
    "after the end of a thought": f"{reply('rm -r /')}\n</think>\n{LS}",
    "other order": json.dumps({"commands": [{"duration": 0.1, "keystrokes": "ls\n"}], "plan": "p", "analysis": "a"}),
    "more fields": reply("ls\n", mood="calm", commands=[{"keystrokes": "ls\n", "duration": 0.1, "is_blocking": True}]),
    "a number as text": reply(commands=[{"keystrokes": "ls\n", "duration": "0.1"}]),
    "line breaks as they are": LS.replace("\\n", "\n"),
    "another object first": '{"note": 1}\n' + LS,
}


@pytest.mark.parametrize("name", READ)
def test_the_keys_are_found_in_an_answer(task: TaskInstance, name: str) -> None:
    step = acting(task, RecordedModel(READ[name])).turn()
    assert (typed(step.action), step.thought) == ([("ls\n", 0.1)], "a\np")


TYPED = {
    "names of keys": ["C-c", "C-d", "Enter", "Up"],
    "names within text": ["echo C-c\n", "C-c\n", "press Enter"],
    "a heredoc with fences": ["cat > f <<'EOF'\n```\n{\"a\": 1}\n```\nEOF\n"],
    "a zero byte": ["a\0b"],
    "escape sequences": ["\x1b[A\x07"],
    "a hundred thousand": ["x" * 100_000],
    "a thousand": [f"{number}\n" for number in range(1000)],
    "other scripts": ["日本語 äöü 😀\n"],
    "nothing": [""],
}


@pytest.mark.parametrize("name", TYPED)
def test_keys_reach_the_terminal_as_they_were_written(task: TaskInstance, name: str) -> None:
    step = acting(task, RecordedModel(reply(*TYPED[name]))).turn()
    assert [keys for keys, _ in typed(step.action)] == TYPED[name]


def test_half_a_character_is_replaced(task: TaskInstance) -> None:
    step = acting(task, RecordedModel(reply("a\ud83d\n", analysis="\udc00", plan="\ud83d"))).turn()
    assert (typed(step.action), step.thought) == ([("a\ufffd\n", 0.1)], "\ufffd\n\ufffd")


def test_a_huge_duration_is_kept_for_the_terminal_to_bound(task: TaskInstance) -> None:
    step = acting(task, RecordedModel(reply(commands=[{"keystrokes": "x", "duration": 1e300}]))).turn()
    assert typed(step.action) == [("x", 1e300)]


def test_no_keys_are_a_look_at_the_screen(task: TaskInstance) -> None:
    assert typed(acting(task, RecordedModel(reply())).turn().action) == [("", 1.0)]


def duration(literal: str) -> str:
    return LS.replace('"duration": 0.1', f'"duration": {literal}')


REFUSED = {
    "empty": "",
    "prose": "I would type ls.",
    "a list": '["ls"]',
    "an empty object": "{}",
    "another object": '{"command": "ls"}',
    "cut in the middle": LS[:-20],
    "cut behind a command": LS[: LS.index("]")],
    "a missing brace": LS[:-1],
    "no analysis": json.dumps({"plan": "p", "commands": []}),
    "no commands": json.dumps({"analysis": "a", "plan": "p"}),
    "null": json.dumps({"analysis": None, "plan": None, "commands": None}),
    "commands are text": reply(commands="ls\n"),
    "commands are an object": reply(commands={"keystrokes": "ls\n"}),
    "commands are texts": reply(commands=["ls\n"]),
    "keystrokes are a number": reply(commands=[{"keystrokes": 3}]),
    "keystrokes are a list": reply(commands=[{"keystrokes": ["ls", "\n"]}]),
    "no keystrokes": reply(commands=[{"duration": 3}]),
    "complete is a sentence": reply(task_complete="nearly"),
    "negative": duration("-1"),
    "not a number": duration("NaN"),
    "infinite": duration("Infinity"),
    "too large for a number": duration("1e999"),
    "thousands of digits": duration("1" * 5_000),
    "null as a duration": duration("null"),
    "very deep": '{"analysis": ' * 20_000,
    "only in a thought": f"<think>{LS}</think>",
    "a thought that never ends": f"<think>{LS}",
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_answer_that_is_none_is_told_its_fault_and_does_nothing(task: TaskInstance, name: str) -> None:
    turns = acting(task, RecordedModel(REFUSED[name]))
    step = turns.turn()
    assert (step.action, turns.submitted) == ("", False)
    assert step.extra["told"].startswith("Your answer could not be read: ")
    assert len(step.extra["told"]) < 1_000
    turns.turn()
    assert alternates(turns.conversation())


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (LS[:-1], "the JSON does not parse: Expecting ',' delimiter at line 1, column"),
        (f"```json\n{LS[:-1]}\n```", "the JSON does not parse: Expecting ',' delimiter at line"),
        (LS.replace("\\n", "\\d"), "the JSON does not parse: Invalid \\escape at line 1"),
        (duration("1" * 5_000), "the JSON does not parse: Exceeds the limit"),
        (duration("-1"), "the JSON object does not fit: commands.0.duration: Input should be greater"),
        ("I type ls.", "there is no JSON object"),
    ],
)
def test_the_fault_is_told_in_words_that_help(task: TaskInstance, answer: str, fault: str) -> None:
    told = acting(task, RecordedModel(answer)).turn().extra["told"]
    assert told.startswith(f"Your answer could not be read: {fault}")


def test_a_cut_answer_is_told_to_be_shorter(task: TaskInstance) -> None:
    step = acting(task, RecordedModel(said(LS[:-20], finish_reason="length"))).turn()
    assert "cut off" in step.extra["told"]


class TestCompletion:
    def test_it_has_to_be_said_twice(self, task: TaskInstance) -> None:
        turns = acting(task, RecordedModel(reply(complete=True)))
        first = turns.turn()
        assert (first.extra["told"], turns.submitted) == (CONFIRM, False)
        second = turns.turn()
        assert turns.submitted and "told" not in second.extra

    def test_it_may_be_said_without_the_list_of_commands(self, task: TaskInstance) -> None:
        turns = acting(task, RecordedModel('{"analysis": "a", "plan": "p", "task_complete": true}'))
        turns.turn()
        turns.turn()
        assert turns.submitted

    def test_keys_in_between_take_it_back(self, task: TaskInstance) -> None:
        turns = acting(task, RecordedModel(reply(complete=True), LS, reply(complete=True), reply(complete=True)))
        told = [turns.turn().extra.get("told") for _ in range(4)]
        assert (told, turns.submitted) == ([CONFIRM, None, CONFIRM, None], True)

    def test_an_unreadable_answer_in_between_takes_it_back(self, task: TaskInstance) -> None:
        turns = acting(task, RecordedModel(reply(complete=True), "Yes.", reply(complete=True)))
        turns.turn(), turns.turn(), turns.turn()
        assert not turns.submitted

    def test_keys_that_come_with_it_are_typed_first_and_count_as_once(self, task: TaskInstance) -> None:
        model = RecordedModel(reply("cat count.txt\n", complete=True), reply(complete=True))
        turns = acting(task, model)
        assert typed(turns.turn().action) == [("cat count.txt\n", 0.1)]
        turns.turn()
        assert turns.submitted
        assert model.asked[1][-1].content == f"screen\n\n{CONFIRM}"

    def test_a_model_that_always_sends_keys_with_it_comes_to_an_end(self, task: TaskInstance) -> None:
        model = RecordedModel(reply("ls\n", complete=True))
        turns = acting(task, model)
        for _ in range(3):
            turns.turn()
        assert turns.submitted
        assert [bool(step.action) for step in turns.history] == [True, True, False]
        assert len(model.asked) == 2
        assert turns.conversation()[-1] == ("assistant", reply("ls\n", complete=True))


def test_the_conversation_is_what_was_sent_last_and_its_answer(task: TaskInstance) -> None:
    model = RecordedModel(LS, "Hm.", reply("pwd\n", complete=True), reply(complete=True))
    turns = acting(task, model)
    assert turns.conversation() == []
    for _ in range(4):
        turns.turn()
        chat = turns.conversation()
        assert chat[:-1] == [(one.role, one.content) for one in model.asked[-1]]
        assert alternates(chat) and chat[-1][0] == "assistant"
    assert turns.submitted
    assert [content for role, content in chat if role == "assistant"][:2] == [LS, "Hm."]


def test_beginnings_of_the_conversation_stay_so_that_the_server_knows_them(task: TaskInstance) -> None:
    model = RecordedModel(LS)
    turns = acting(task, model)
    for _ in range(4):
        turns.turn()
    for shorter, longer in zip(model.asked, model.asked[1:], strict=False):
        assert longer[: len(shorter)] == shorter


ASKED_TO_SUM_UP = "Another engineer goes on"


class TestFullContext:
    """A model whose context holds about four screens."""

    CONTEXT = 14_000
    SCREEN = "New Terminal Output:\n" + "x" * 3_000

    def run(
        self, task: TaskInstance, turns: int, summary: str = "I listed the files.", *, context: int = CONTEXT
    ) -> tuple[RecordedModel, Acting]:
        model = RecordedModel(context=context)
        model.answer = lambda _: summary if ASKED_TO_SUM_UP in model.asked[-1][-1].content else LS
        attempt = acting(task, model, self.SCREEN)
        for _ in range(turns):
            attempt.turn()
        return model, attempt

    def summaries(self, attempt: Acting) -> list[int]:
        return [step.index for step in attempt.history if step.extra["calls"][0]["purpose"] == "summary"]

    def test_the_model_sums_up_and_goes_on_with_that_alone(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 6)
        (at,) = self.summaries(attempt)
        purposes = [call["purpose"] for call in attempt.history[at].extra["calls"]]
        assert purposes == ["summary", "decision"]
        (begun,) = model.asked[at + 1]
        assert at == 5
        assert "What the engineer before you wrote:\nI listed the files.\n" in begun.content
        assert task.instruction in begun.content and self.SCREEN in begun.content
        assert LS not in begun.content

    def test_the_summary_is_asked_at_the_end_of_a_beginning_of_the_conversation(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 6)
        asked = model.asked[self.summaries(attempt)[0]]
        assert alternates(asked) and task.instruction in asked[-1].content
        assert len(asked) > 2 and asked[:-1] == model.asked[self.summaries(attempt)[0] - 1][: len(asked) - 1]

    def test_a_thought_is_not_handed_over(self, task: TaskInstance) -> None:
        model, _ = self.run(task, 6, "<think>secret</think>\nI listed.")
        assert "secret" not in model.asked[-1][0].content and "I listed." in model.asked[-1][0].content

    def test_an_empty_summary_is_one(self, task: TaskInstance) -> None:
        model, _ = self.run(task, 6, "")
        assert model.asked[-1][0].content.count("What the engineer before you wrote:") == 1

    def test_it_happens_again_and_the_first_summary_is_known_to_the_second(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 0)
        for _ in range(12):
            attempt.turn()
            chat = attempt.conversation()
            assert chat[:-1] == [(one.role, one.content) for one in model.asked[-1]]
            assert alternates(chat)
        assert len(self.summaries(attempt)) >= 2
        second = [asked for asked in model.asked if ASKED_TO_SUM_UP in asked[-1].content][1]
        assert "What the engineer before you wrote:\nI listed the files." in second[0].content

    def test_the_last_summary_is_handed_over_even_when_nothing_else_fits(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 6)
        attempt.observation = "x" * 20_000
        model.context = 2_500
        attempt.turn()
        (asked,) = model.asked[-2]
        assert "What the engineer before you wrote:\nI listed the files.\n" in asked.content

    def test_a_screen_that_is_too_long_for_a_new_conversation_is_cut_and_stays_so(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 2)
        attempt.observation = "begin" + "x" * 30_000 + "end"
        attempt.turn()
        (begun,) = model.asked[-1]
        assert "begin" in begun.content and begun.content.endswith("end") and len(begun.content) < 6_000
        attempt.turn()
        assert model.asked[-1][0] == begun
        assert self.summaries(attempt) == [2]

    def test_each_call_is_recorded_with_the_hash_of_what_was_sent(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 12)
        hashes = [call["prompt_sha256"] for step in attempt.history for call in step.extra["calls"]]
        assert hashes == [prompt_sha256(asked) for asked in model.asked]

    def test_a_task_that_does_not_fit_ends_the_attempt(self, task: TaskInstance) -> None:
        with pytest.raises(ContextFull):
            self.run(task, 1, context=100)

    def test_a_context_that_holds_nothing_any_more_ends_the_attempt(self, task: TaskInstance) -> None:
        model, attempt = self.run(task, 3, context=20_000)
        model.context = 100
        with pytest.raises(ContextFull, match="characters"):
            attempt.turn()
        assert alternates(attempt.conversation())
