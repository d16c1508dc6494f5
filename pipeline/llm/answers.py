"""Finds code and JSON in what a model answered, however it was wrapped.

Models fence code in every way that Markdown has and some that it has not. What is found is checked by the caller: a
block that parses says nothing of what it does.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from markdown_it import MarkdownIt
from pydantic import BaseModel, ValidationError

PYTHON = {"python", "python3", "py", "py3", "pytest", "python-pytest"}
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_BEFORE = re.compile(r"\A(?:(?!<think).)*?</think(?:ing)?>[ \t]*$", re.DOTALL | re.IGNORECASE | re.MULTILINE)
"""Where the template of the model opens the thought, the answer has its end only."""
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.MULTILINE)
_WORD = re.compile(r"[\w+-]+")
_SHOWN = 300
_BRACES = 400
"""Places where an object may begin: each one that is none costs a look at the rest."""

M = TypeVar("M", bound=BaseModel)


class NoAnswer(Exception):
    """The answer holds nothing of the kind; the text says why, in words for the model."""


@dataclass(frozen=True)
class CodeBlock:
    """One fenced piece of an answer."""

    language: str
    """First word of the info string in lower case, e.g. `python` for ```{.python title="x"}; empty without one."""
    text: str
    line: int
    """Where it begins in the answer, from 0."""


def plain(answer: str) -> str:
    """The answer without what the model thought aloud, with newlines as line ends."""
    lines = answer.replace("\r\n", "\n").replace("\r", "\n")
    return _THOUGHT.sub("", _THOUGHT_BEFORE.sub("", lines))


def blocks(answer: str) -> list[CodeBlock]:
    """All fenced blocks, those in lists and quotes and one that was never closed included."""
    tokens = MarkdownIt("commonmark").parse(plain(answer))
    return [
        CodeBlock(_language(token.info), token.content, token.map[0])
        for token in tokens
        if token.type == "fence" and token.map is not None
    ]


def python_of(answer: str) -> str:
    """The Python file of an answer: the longest block that parses and defines a test.

    Blocks of other languages are passed over, wherever they stand; a block that a fence inside a string cut short is
    continued to the fence that lets it parse; the answer may be the file itself. Raises NoAnswer.
    """
    found = blocks(answer)
    fenced = [text for block in found if block.language in PYTHON | {""} for text in _continued(answer, block)]
    whole = plain(answer)
    tests = [text for text in (whole, *fenced) if _has_test(text)]
    if tests:
        return max(tests, key=len).strip("\n") + "\n"
    if found and not fenced:
        raise NoAnswer("there is no block that begins with ```python")
    raise NoAnswer(_python_fault(fenced[0] if fenced else whole))


def object_of(answer: str, kind: type[M]) -> M:
    """The JSON object of an answer that fits `kind`: in a fence, bare, or between sentences. Raises NoAnswer."""
    fault = "there is no JSON object"
    for value in _objects(answer):
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the object"
            fault = f"the JSON object does not fit: {place}: {first['msg']}"
    raise NoAnswer(_syntax_fault(answer) or fault)


def _language(info: str) -> str:
    word = _WORD.search(info)
    return word[0].lower() if word else ""


def _continued(answer: str, block: CodeBlock) -> Iterator[str]:
    """The block's text, then, while that does not parse, everything up to each later fence."""
    yield block.text
    if _parses(block.text):
        return
    lines = plain(answer).split("\n")
    margin = len(lines[block.line]) - len(lines[block.line].lstrip(" "))
    for end in range(block.line + 1, len(lines)):
        if _FENCE.match(lines[end]) or end == len(lines) - 1:
            body = [line[margin:] if not line[:margin].strip() else line for line in lines[block.line + 1 : end]]
            text = "\n".join(body)
            if _parses(text):
                yield text


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _has_test(text: str) -> bool:
    return _parses(text) and any(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test") for node in ast.parse(text).body
    )


def _python_fault(text: str) -> str:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return f"the Python block does not parse: {str(error)[:_SHOWN]}"
    return "the Python block has no function whose name begins with test_"


def _objects(answer: str) -> Iterator[object]:
    """JSON objects, the fenced ones first, then any that begins at a brace outside of an earlier one."""
    for block in blocks(answer):
        if block.language in {"json", "jsonc", "json5", ""}:
            yield from _decoded(block.text)
    yield from _decoded(plain(answer))


def _syntax_fault(answer: str) -> str:
    """Why an answer that is an object at first sight is none; empty when that is not the fault."""
    for text in (*(block.text for block in blocks(answer) if block.language == "json"), plain(answer)):
        if text.lstrip().startswith("{"):
            try:
                json.JSONDecoder(strict=False).raw_decode(text.lstrip())
            except json.JSONDecodeError as error:
                return f"the JSON does not parse: {error.msg} at line {error.lineno}, column {error.colno}"
            except (ValueError, RecursionError) as error:
                return f"the JSON does not parse: {str(error)[:_SHOWN]}"
            return ""
    return ""


def _decoded(text: str) -> Iterator[object]:
    # Models write line breaks into strings as they are.
    decoder = json.JSONDecoder(strict=False)
    position = -1
    for _ in range(_BRACES):
        position = text.find("{", position + 1)
        if position < 0:
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            # A number of thousands of digits is a ValueError of its own.
            continue
        yield value
        position = end - 1
