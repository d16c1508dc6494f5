"""Prompts: every place gets its value, and a value is only ever a value."""

from __future__ import annotations

import pytest

import pipeline.prompts
from pipeline.prompts import Prompt, PromptIncomplete, fenced, prompt


def test_every_place_gets_its_value() -> None:
    assert Prompt("greeting", "{{who}}: hello {{who}}, {{what}}").render(who="a", what="b") == "a: hello a, b"


@pytest.mark.parametrize("values", [{}, {"who": "a", "more": "b"}], ids=["missing", "too many"])
def test_values_that_are_not_those_of_the_places_are_named(values: dict[str, str]) -> None:
    with pytest.raises(PromptIncomplete, match="who" if not values else "more"):
        Prompt("greeting", "hello {{who}}").render(**values)


def test_a_value_that_looks_like_a_place_is_left_alone() -> None:
    assert Prompt("greeting", "{{who}} {{key}}").render(who=r"{{key}} \1", key="secret") == r"{{key}} \1 secret"


def test_the_hash_names_the_wording_and_not_the_values() -> None:
    assert Prompt("a", "x {{y}}").sha256 == Prompt("b", "x {{y}}").sha256 != Prompt("a", "z {{y}}").sha256


def test_no_fence_in_a_text_ends_its_block() -> None:
    block = fenced("before\n````\nafter\n", "text")
    assert block == "`````text\nbefore\n````\nafter\n`````"


def test_every_prompt_file_can_be_read() -> None:
    names = [path.stem for path in pipeline.prompts._FOLDER.glob("*.md")]
    assert names and all(prompt(name).text for name in names)
