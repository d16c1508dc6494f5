"""Conversations longer than a window lose nothing that shall be learned, whatever their shape."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.exports.account import RowRefused
from tests.unit.small_tokenizer import small_tokenizer
from training.chat_template import Message
from training.long_rows import Window, windows
from training.tokens import IGNORED, ChatTokenizer, Memo

HEAD = 69
"""Tokens of the system prompt that the template adds and of the last line end."""

PARTS = (
    "a",
    " b",
    "x" * 16,
    "\n",
    "\n\n",
    "  ",
    "0",
    "é",
    "漢",
    "🦉",
    "<|im_end|>\n<|im_start|>assistant\n",
    "<tool_call>",
)
WORDS = st.lists(st.sampled_from(PARTS), max_size=20).map("".join)
LENGTHS = st.integers(0, 12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return ChatTokenizer(small_tokenizer(tmp_path_factory.mktemp("tokenizers") / "small"))


def split(tokenizer: ChatTokenizer, messages: Sequence[Message], max_tokens: int) -> list[Window]:
    return windows(messages, tokenizer, max_tokens, {})


def refused(tokenizer: ChatTokenizer, messages: Sequence[Message], max_tokens: int) -> str:
    with pytest.raises(RowRefused) as error:
        split(tokenizer, messages, max_tokens)
    return error.value.rule


def texts(window: Window) -> list[str]:
    return [message["content"] for message in window.messages]


def chat(*contents: str) -> list[Message]:
    return [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(contents)]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A task, then turns of the assistant with none, one or several observations behind each."""
    said: list[Message] = [{"role": "system", "content": draw(WORDS)}] if draw(st.booleans()) else []
    said.append({"role": "user", "content": draw(WORDS)})
    for _ in range(draw(LENGTHS)):
        said.append({"role": "assistant", "content": draw(WORDS)})
        for role in draw(st.lists(st.sampled_from(["user", "tool"]), max_size=2)):
            said.append({"role": role, "content": draw(WORDS) * draw(st.integers(0, 12))})
    return [*said, {"role": "assistant", "content": draw(WORDS)}]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=conversations(), max_tokens=st.integers(HEAD + 60, 1200))
def test_every_turn_is_learned_once_in_order_and_no_window_is_too_long(
    tokenizer: ChatTokenizer, messages: list[Message], max_tokens: int
) -> None:
    memo: Memo = {}
    try:
        parts = windows(messages, tokenizer, max_tokens, memo)
        encoded = [part.encode(tokenizer, memo) for part in parts]
    except RowRefused as error:
        assert error.rule == "turn_too_long"
        return
    turns = [message["content"] for message in messages if message["role"] == "assistant"]
    end = tokenizer.encode(chat("", ""), frozenset([1]), {}).runs[-2].ids[-1]
    learned = [label for one in encoded for label in one.labels() if label != IGNORED]
    alone = [tokenizer.encode(chat("", turn), frozenset([1]), {}) for turn in turns]
    assert learned == [label for one in alone for label in one.labels() if label != IGNORED]
    assert learned.count(end) == len(turns)
    assert max(one.n_tokens for one in encoded) <= max_tokens
    assert all(len(one.input_ids()) == len(one.labels()) == one.n_tokens for one in encoded)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=conversations(), max_tokens=st.integers(HEAD + 60, 1200))
def test_each_window_is_the_task_and_then_messages_of_the_row_in_order(
    tokenizer: ChatTokenizer, messages: list[Message], max_tokens: int
) -> None:
    task = next(at for at, message in enumerate(messages) if message["role"] == "assistant")
    try:
        parts = split(tokenizer, messages, max_tokens)
    except RowRefused:
        return
    for part in parts:
        assert list(part.messages[:task]) == messages[:task]
        last = part.turns[-1] if len(parts) > 1 else len(messages) - 1
        rest = list(part.messages[task:])
        expected = messages[last + 1 - len(rest) : last + 1]
        changed = [one for one, whole in zip(rest, expected, strict=True) if one != whole]
        assert len(changed) == part.cut
        assert all("left out here" in one["content"] and one["role"] != "assistant" for one in changed)


def test_a_row_that_fits_is_one_window_with_all_its_messages(tokenizer: ChatTokenizer) -> None:
    messages = chat("List it.", "ls", "a", "done", "thanks")
    (window,) = split(tokenizer, messages, 1000)
    assert (texts(window), window.turns) == (["List it.", "ls", "a", "done", "thanks"], (1, 3))


def test_the_last_turn_of_a_long_row_is_learned(tokenizer: ChatTokenizer) -> None:
    parts = split(tokenizer, chat("List it.", *["ls", "z" * 50] * 20, "done"), 250)
    assert len(parts) > 1
    assert (texts(parts[-1])[-1], parts[-1].turns[-1]) == ("done", 41)


def test_a_further_window_has_the_latest_turns_as_context(tokenizer: ChatTokenizer) -> None:
    numbered = [text for place in range(20) for text in (f"ls {place}", f"{place} " + "z" * 40)]
    second = split(tokenizer, chat("List it.", *numbered, "done"), 400)[1]
    first_learned = min(second.targets)
    assert texts(second)[0] == "List it."
    assert first_learned >= 3
    assert texts(second)[first_learned - 2 : first_learned] == numbered[second.turns[0] - 3 : second.turns[0] - 1]


def test_an_observation_longer_than_the_window_keeps_its_beginning_and_its_end(tokenizer: ChatTokenizer) -> None:
    long = "begin " + "z" * 5000 + " end"
    first, second = split(tokenizer, chat("List it.", "ls", long, "done"), 300)
    assert texts(first) == ["List it.", "ls"]
    task, action, observed, answer = texts(second)
    assert (task, action, answer, second.cut) == ("List it.", "ls", "done", 1)
    assert observed.startswith("begin z")
    assert observed.endswith("z end")
    assert (
        f"[{len(long) - observed.count('z') - len('begin  end')} characters of this output are left out here]"
        in observed
    )


def test_what_the_assistant_did_gives_way_to_what_came_of_it(tokenizer: ChatTokenizer) -> None:
    second = split(tokenizer, chat("List it.", "w" * 120, "begin " + "z" * 5000, "done"), 300)[1]
    assert texts(second)[1].startswith("begin z")
    assert len(second.messages) == 3


def test_without_room_for_a_part_worth_reading_an_observation_is_left_out(tokenizer: ChatTokenizer) -> None:
    second = split(tokenizer, chat("List it.", "ls", "z" * 5000, "w" * 170), 300)[1]
    assert texts(second) == ["List it.", "w" * 170]


def test_a_turn_longer_than_what_the_task_leaves_refuses_the_row(tokenizer: ChatTokenizer) -> None:
    assert refused(tokenizer, chat("List it.", "ls", "a", "w" * 300), 300) == "turn_too_long"


def test_a_task_longer_than_a_window_refuses_the_row(tokenizer: ChatTokenizer) -> None:
    assert refused(tokenizer, chat("w" * 300, "ls"), 300) == "turn_too_long"


def test_a_row_whose_windows_have_no_end_is_refused(tokenizer: ChatTokenizer) -> None:
    endless = chat("xxxxxxxxxxxxxxxx" * 60_000, *["ls", "z" * 300] * 600, "done")
    assert refused(tokenizer, endless, 60_400) == "too_many_windows"


@pytest.mark.parametrize(
    ("messages", "rule"),
    [(chat("List it."), "no_answer"), ([{"role": "assistant", "content": "done"}], "no_task")],
    ids=["no_answer", "no_task"],
)
def test_a_row_without_a_task_or_an_answer_is_refused(
    tokenizer: ChatTokenizer, messages: list[Message], rule: str
) -> None:
    assert refused(tokenizer, messages, 1000) == rule
