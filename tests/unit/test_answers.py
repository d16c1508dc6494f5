"""Code and JSON are found in answers of every shape that models give, and what is none is told apart."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from pipeline.llm.answers import NoAnswer, blocks, object_of, python_of

CODE = 'def test_it(box):\n    assert box.text("/work/x") == "1\\n"\n'
INNER = 'TEXT = """\n```\ncode\n```\n"""\n\n\ndef test_it(box):\n    assert box.text("/work/x") == TEXT\n'


def indented(text: str, margin: str) -> str:
    return "".join(f"{margin}{line}" if line.strip() else line for line in text.splitlines(keepends=True))


VARIANTS = {
    "python": f"Here:\n```python\n{CODE}```\n",
    "py": f"```py\n{CODE}```",
    "python3": f"```python3\n{CODE}```",
    "upper case": f"```Python\n{CODE}```",
    "carriage returns": f"```python\n{CODE}```\n".replace("\n", "\r\n"),
    "trailing space": f"```python  \n{CODE}```  \n",
    "attributes": f'```python title="test_state.py" linenums="1"\n{CODE}```',
    "braces": f"```{{.python .numberLines}}\n{CODE}```",
    "tildes": f"~~~python\n{CODE}~~~\n",
    "indented in a list": "1. The tests:\n\n" + indented(f"```python\n{CODE}```\n", "   "),
    "in a quote": "".join(f"> {line}" for line in f"```python\n{CODE}```\n".splitlines(keepends=True)),
    "four backticks": f"````python\n{CODE}````",
    "no language": f"```\n{CODE}```",
    "never closed": f"```python\n{CODE}",
    "a shell block first": f"```bash\npytest test_state.py\n```\n\n```python\n{CODE}```",
    "a shell block with a test function after": f"```python\n{CODE}```\n```sh\ntest_it() {{ true; }}\n```",
    "no fence": CODE,
    "thought aloud": f"<think>```python\ndef test_other(): assert 1\n```</think>\n```python\n{CODE}```",
}


@pytest.mark.parametrize("answer", VARIANTS.values(), ids=VARIANTS)
def test_the_file_is_found(answer: str) -> None:
    assert python_of(answer) == CODE


@pytest.mark.parametrize(
    "answer",
    [f"```python\n{INNER}```\n", INNER, f"```python\n{INNER}", f"Text.\n\n```python\n{INNER}```\nMore text, isn't it?"],
    ids=["fenced", "bare", "never closed", "between sentences"],
)
def test_a_fence_inside_a_string_does_not_end_the_file(answer: str) -> None:
    assert python_of(answer) == INNER


def test_the_longest_file_with_a_test_is_taken() -> None:
    short = "def test_it(): ...\n"
    assert python_of(f"```python\n{short}```\nor rather\n```python\n{CODE}```\n```python\nprint(1)\n```") == CODE


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I cannot do that.", "does not parse"),
        ("```bash\ntrue\n```", "no block that begins with ```python"),
        ("```python\ndef test_it(:\n```", "does not parse"),
        ("```python\nprint(1)\n```", "no function whose name begins with test_"),
        ("", "no function whose name begins with test_"),
    ],
)
def test_an_answer_without_a_test_file_is_told_apart(answer: str, reason: str) -> None:
    with pytest.raises(NoAnswer, match=reason):
        python_of(answer)


def test_blocks_keep_their_language_and_place() -> None:
    found = blocks("a\n\n```sh\nx\n```\n\n~~~{.json}\n{}\n~~~\n")
    assert [(block.language, block.text, block.line) for block in found] == [("sh", "x\n", 2), ("json", "{}\n", 6)]


class Pair(BaseModel):
    left: int
    right: str


WRAPPED = json.dumps({"left": 1, "right": "a {brace} and\n```a fence```"})


@pytest.mark.parametrize(
    "answer",
    [
        WRAPPED,
        f"Sure! {WRAPPED} Hope that helps {{}}.",
        f"```json\n{WRAPPED}\n```",
        f"```\n{WRAPPED}\n```",
        f"~~~JSON\n{WRAPPED}\n~~~",
        f"```json\n{WRAPPED}",
        f'An example is {{"left": "?"}}, mine is\n\n{WRAPPED}',
        f"<think>{{'left': 2}}</think>{WRAPPED}",
        WRAPPED.replace("\\n", "\n"),
        WRAPPED + WRAPPED,
    ],
    ids=[
        "bare",
        "between sentences",
        "fenced",
        "no language",
        "tildes",
        "never closed",
        "after another object",
        "thought aloud",
        "line breaks in strings",
        "twice",
    ],
)
def test_the_object_is_found(answer: str) -> None:
    assert object_of(answer, Pair) == Pair(left=1, right="a {brace} and\n```a fence```")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("no", "there is no JSON object"),
        ('{"left": 1}', "right: Field required"),
        ('{"left": "x", "right": "y"}', "left: "),
        ("{" * 100_000, "the JSON does not parse: Expecting property name"),
    ],
)
def test_an_answer_without_the_object_says_what_is_wrong(answer: str, reason: str) -> None:
    with pytest.raises(NoAnswer, match=reason):
        object_of(answer, Pair)


def test_a_thought_whose_beginning_the_template_wrote_is_left_out() -> None:
    assert [block.text for block in blocks("```\nno\n```\n</think>\n\n```\nyes\n```")] == ["yes\n"]
    assert blocks("```html\na</think>b\n```")[0].text == "a</think>b\n"
