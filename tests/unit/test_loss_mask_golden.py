"""What is learned of a conversation, token by token, for the templates of three families.

tests/data/loss_mask has a file for each: every case with its tokens in order, those that stand together and are given
or learned on a line. They are the files to read when in doubt what a model is trained on; they are changed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from pipeline.exports.account import RowRefused
from tests.unit.family_tokenizers import MISTRAL_LAST_TEMPLATE, Family, llama, mistral, qwen
from tests.unit.hostile_rows import verified_row, version_of
from training.chat_template import Message
from training.data import export_tokens
from training.long_rows import windows
from training.qwen_tokenizer import CHAT_TEMPLATE
from training.token_files import read_rows
from training.tokens import IGNORED, ChatTokenizer, Encoded

GOLDEN = Path(__file__).parent.parent / "data" / "loss_mask"
FAMILIES = {"qwen": qwen, "llama": llama, "mistral": mistral}
WINDOW = {"qwen": 56, "llama": 62, "mistral": 46}
"""Tokens of a window in which two turns of the case `windows` have room."""

Chat = list[Message]


def chat(*texts: str, system: str | None = None) -> Chat:
    """Texts of the user and of the assistant in turn."""
    told = [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]
    return [*told] if system is None else [{"role": "system", "content": system}, *told]


def tool(text: str) -> Message:
    return {"role": "tool", "content": text}


SEEN = "[exit code 0]\na b\n"
"""What a command of our agents answers: it nearly always ends a line."""


def cases(end: str) -> dict[str, Chat]:
    """The conversations; `end` is the control token that ends a turn."""
    return {
        "single turn": chat("List it.", "ls -l"),
        "three turns": chat("List it.", "ls", SEEN, "cat a", SEEN, "done"),
        "system": chat("List it.", "ls", SEEN, "done", system="Be brief."),
        "the assistant spells the end of its turn": chat("List it.", f"echo {end} hi", SEEN, "done"),
        "the user spells it": chat(f"echo {end}", "ls"),
        "unicode": chat("é 漢?", "echo é漢🦉"),
        "an answer of several lines": chat("List it.", "```\nls\n\n  cat a\n```"),
        "the assistant ends with blanks": chat("List it.", "ls \n\n"),
        "the assistant begins with blanks": chat("List it.", " ls"),
        "the user begins and ends with blanks": chat("\n List it. \n", "ls"),
        "no text": chat("List it.", "", SEEN, "done"),
        "results of tools": [
            *chat("List it.", "ls"),
            tool("a b\n"),
            tool("hi"),
            {"role": "assistant", "content": "done"},
        ],
        "windows": chat("List it.", *["ls -l", SEEN, "cat a", SEEN] * 2, "done", system="Be brief."),
    }


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    return {name: make(tmp_path_factory.mktemp("tokenizers") / name) for name, make in FAMILIES.items()}


def encoded(tokenizer: ChatTokenizer, told: Sequence[Message], max_tokens: int) -> list[Encoded]:
    """The windows of a row, as the export makes them."""
    messages = tokenizer.template.as_given(told)
    return [window.encode(tokenizer, {}) for window in windows(messages, tokenizer, max_tokens, {})]


def shown(family: Family, made: Encoded) -> list[str]:
    """A line for tokens that stand together and are alike."""
    lines = []
    pairs = zip(made.input_ids(), made.labels(), strict=True)
    for given, run in groupby(pairs, lambda pair: pair[1] == IGNORED):
        tokens = [family.shown(number) for number, _ in run]
        lines.append(f"{'given  ' if given else 'LEARNED'} {json.dumps(tokens, ensure_ascii=False)}")
    return lines


def golden(name: str, family: Family) -> str:
    """The file of a family, as the code has it."""
    tokenizer = ChatTokenizer(family.folder)
    lines = []
    for case, told in cases(family.end).items():
        lines.append(f"== {case}")
        try:
            made = encoded(tokenizer, told, WINDOW[name] if case == "windows" else 4096)
        except RowRefused as error:
            lines.append(f"refused {error.rule}")
            continue
        for number, window in enumerate(made):
            lines += [f"-- window {number + 1} of {len(made)}"] if len(made) > 1 else []
            lines += shown(family, window)
    return "\n".join(lines) + "\n"


def learned(family: Family, made: Encoded) -> bytes:
    return b"".join(family.tokens[label] for label in made.labels() if label != IGNORED)


def refused(tokenizer: ChatTokenizer, told: Sequence[Message]) -> str:
    with pytest.raises(RowRefused) as error:
        encoded(tokenizer, told, 4096)
    return error.value.rule


@pytest.mark.parametrize("name", FAMILIES)
def test_exactly_the_assistants_tokens_and_the_ends_of_its_turns_are_learned(
    families: dict[str, Family], name: str
) -> None:
    assert golden(name, families[name]).splitlines() == (GOLDEN / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize("name", ["qwen", "llama"])
def test_the_bytes_that_are_learned_are_those_of_the_row(families: dict[str, Family], name: str) -> None:
    family = families[name]
    tokenizer = ChatTokenizer(family.folder)
    for case, told in cases(family.end).items():
        try:
            made = encoded(tokenizer, told, WINDOW[name])
        except RowRefused:
            continue
        texts = [message["content"] for message in told if message["role"] == "assistant"]
        assert (
            b"".join(learned(family, window) for window in made) == "".join(t + family.end for t in texts).encode()
        ), case


@pytest.mark.parametrize("name", FAMILIES)
def test_the_ids_are_those_that_transformers_makes_of_the_row(families: dict[str, Family], name: str) -> None:
    family = families[name]
    tokenizer = ChatTokenizer(family.folder)
    theirs = PreTrainedTokenizerFast.from_pretrained(family.folder)
    for case in ("single turn", "three turns", "system", "unicode", "the user begins and ends with blanks", "no text"):
        told = cases(family.end)[case]
        (made,) = encoded(tokenizer, told, 4096)
        assert theirs.apply_chat_template(told)["input_ids"] == list(made.input_ids()), case


@pytest.mark.parametrize("name", FAMILIES)
def test_an_observation_that_is_cut_is_given_in_every_window(families: dict[str, Family], name: str) -> None:
    family = families[name]
    tokenizer = ChatTokenizer(family.folder)
    told = chat("List it.", *["ls", "[exit code 0]\n" + "x" * 8000 + "\n"] * 3, "done")
    made = encoded(tokenizer, told, 400)
    assert len(made) == 4
    texts = [tokenizer.text_of([one for one in window.labels() if one != IGNORED]) for window in made]
    assert texts == [*[f"ls{family.end}"] * 3, f"done{family.end}"]
    assert max(window.n_tokens for window in made) <= 400


def test_rows_whose_observations_end_a_line_are_written_for_a_template_that_trims(
    families: dict[str, Family], tmp_path: Path
) -> None:
    rows = [
        verified_row("seen", chat=chat("List it.\n", "ls", SEEN, "done")),
        verified_row("ends", chat=chat("x", "ls\n")),
    ]
    tokenizer = ChatTokenizer(families["llama"].folder)
    made = export_tokens(version_of(tmp_path / "version", rows), tmp_path / "out", tokenizer, 256)
    (written,) = read_rows(tmp_path / "out", "train")
    assert "\n\nList it.<|eot_id|>" in tokenizer.text_of(written.input_ids)
    assert "a b<|eot_id|>" in tokenizer.text_of(written.input_ids)
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["texts_trimmed"] == 2
    assert made.refused == 1


def test_texts_that_a_template_leaves_alone_are_not_trimmed(families: dict[str, Family]) -> None:
    told = chat(" List it.\n", "ls", SEEN, "done", system=" x ")
    assert list(ChatTokenizer(families["qwen"].folder).template.as_given(told)) == told
    trimmed = ChatTokenizer(families["mistral"].folder).template.as_given(told)
    assert [message["content"] for message in trimmed] == [" x ", " List it.\n", "ls", SEEN, "done"]


def test_a_system_prompt_in_the_last_text_of_the_user_is_carried_by_one_turn_only(tmp_path: Path) -> None:
    tokenizer = ChatTokenizer(mistral(tmp_path / "last", MISTRAL_LAST_TEMPLATE).folder)
    (made,) = encoded(tokenizer, chat("List it.", "ls", system="Be brief."), 4096)
    assert tokenizer.text_of(made.input_ids()) == "<s>[INST] Be brief.\n\nList it.[/INST] ls</s>"
    assert encoded(tokenizer, chat("List it.", "ls", SEEN, "done"), 4096)
    assert refused(tokenizer, chat("List it.", "ls", SEEN, "done", system="Be brief.")) == "template_rewrites"


def test_a_space_before_a_turn_that_would_be_learned_as_text_refuses_the_row(tmp_path: Path) -> None:
    folder = qwen(tmp_path / "spaced").folder
    spaced = CHAT_TEMPLATE.replace(
        'message.role + "\\n" + message.content', 'message.role + ":" + SPACE + message.content'
    )
    asked = spaced.replace("assistant\\n", "assistant:").replace("SPACE", '" "')
    (folder / "chat_template.jinja").write_text(asked)
    assert refused(ChatTokenizer(folder), chat("List it.", "ls")) == "tokenizer_rewrites"


def test_a_template_that_begins_some_turns_with_a_space_refuses_the_row(tmp_path: Path) -> None:
    folder = mistral(tmp_path / "some").folder
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    (folder / "chat_template.jinja").write_text(template.replace('{{- " " +', '{{- (" " if loop.last else "") +'))
    assert refused(ChatTokenizer(folder), chat("List it.", "ls", SEEN, "done")) == "template_rewrites"
