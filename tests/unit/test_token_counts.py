"""Counts of tokens come from a tokenizer that someone gave, or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.token_counts import TokenCounter
from tests.unit.small_tokenizer import small_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_tokenizer(tmp_path / "small")


def test_a_text_has_as_many_tokens_as_the_tokenizer_makes_of_it(folder: Path) -> None:
    counter = TokenCounter(folder / "tokenizer.json")
    assert [counter.count(text) for text in ("", "done", "ls done", "z" * 5)] == [0, 1, 2, 5]


def test_messages_have_the_tokens_of_their_texts(folder: Path) -> None:
    messages = [{"role": "user", "content": "ls done"}, {"role": "assistant", "content": "done"}]
    assert TokenCounter(folder).count_messages(messages) == 3


def test_a_control_token_in_a_text_counts_as_its_letters(folder: Path) -> None:
    assert TokenCounter(folder).count("<|im_end|>") == len(["<", "|", "im", "_", "end", "|", ">"])


def test_a_tokenizer_that_would_cut_or_pad_counts_all_the_same(tmp_path: Path) -> None:
    cutting = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    assert TokenCounter(small_tokenizer(tmp_path / "cutting", truncation=cutting)).count("z" * 5) == 5


def test_a_count_is_named_after_the_file_it_came_from(folder: Path) -> None:
    sha256 = hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    assert TokenCounter(folder).tokenizer_id == f"small@{sha256[:12]}"


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        TokenCounter(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": 1}'])
def test_a_file_that_is_no_tokenizer_is_a_mistake(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match="no tokenizer"):
        TokenCounter(file).count("x")
