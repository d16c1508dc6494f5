"""A model's chat template: what stands before, between and after the texts of a conversation.

The template is the text a tokenizer's folder has, run in a sandbox. It is asked once per order of roles, with marks in
place of the contents; a row is then its contents between the pieces found. A row whose own rendering is something else
is refused: the template rewrote a text. So is an order of roles in which a turn's prompt would not be how the whole
conversation begins: what the model learns from would not be what it sees when it acts. Blanks at the ends of texts that
are given are no such thing: where a template trims them, they are trimmed before, as it does when the model acts.

Not here: tokens (training/tokens.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from jinja2 import Environment, Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pipeline.errors import ConfigurationError
from pipeline.exports.account import RowRefused

Message = Mapping[str, str]
"""role and content."""

_MARK = "touchstone-7c1f0e5b-{}-mark"
_ALL_PROMPTS = 64
"""Conversations up to this many messages have the prompt of each turn compared, longer ones those of some 24 turns: at
the two ends, since a template tells turns apart by their distance from there, and spread over the middle."""
_SHAPES = 512
"""Orders of roles that are remembered."""


@dataclass(frozen=True)
class Shape:
    """What a template writes for one order of roles."""

    pieces: tuple[str, ...]
    """Before each content, and after the last one."""
    lead: str
    """Spaces at the end of the piece before each turn of the assistant that its prompt lacks: the model writes them."""


class ChatTemplate:
    """Renders conversations as the template of one tokenizer does."""

    def __init__(self, source: str, words: Mapping[str, str]) -> None:
        """`words` are the names of tokens the template may use (bos_token …). Raises ConfigurationError."""
        self.source = source
        self._words = dict(words)
        self._template = _compile(source)
        self.around = lru_cache(_SHAPES)(self._around)

    def render(self, messages: Sequence[Message], prompt: bool = False) -> str:
        """The whole text; with `prompt` it ends where the model begins to write. Raises RowRefused."""
        try:
            return self._template.render(messages=messages, add_generation_prompt=prompt, **self._words)
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RowRefused("template_refuses", f"the chat template refuses it: {error}") from error

    def as_given(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages, those of a role trimmed if the template trims them: it renders both alike.

        The assistant's stay as they are: it would learn to end where the row does not. Raises RowRefused.
        """
        given = tuple(messages)
        for role in sorted({message["role"] for message in messages} - {"assistant"}):
            trimmed = tuple(_trimmed(message) if message["role"] == role else message for message in given)
            if trimmed != given and self.render(trimmed) == self.render(given):
                given = trimmed
        return given

    def pieces(self, messages: Sequence[Message]) -> tuple[Shape, str]:
        """What the template writes around the contents, and the whole text.

        Raises RowRefused when the template rewrites a content or refuses the conversation.
        """
        shape = self.around(tuple(message["role"] for message in messages))
        pieces, whole = shape.pieces, self.render(messages)
        expected = "".join(
            part for before, message in zip(pieces, messages, strict=False) for part in (before, message["content"])
        )
        if whole != expected + pieces[-1]:
            place = next((at for at, (a, b) in enumerate(zip(whole, expected, strict=False)) if a != b), len(expected))
            turn = _turn_at(place, pieces, messages)
            raise RowRefused("template_rewrites", f"the chat template rewrites the text of message {turn}")
        return shape, whole

    def _around(self, roles: tuple[str, ...]) -> Shape:
        marks = [_MARK.format(place) for place in range(len(roles))]
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
        whole = self.render(messages)
        pieces, end = [], 0
        for place, mark in enumerate(marks):
            found = whole.find(mark, end)
            if found < 0:
                raise RowRefused("template_rewrites", f"the chat template leaves out or moves message {place}")
            pieces.append(whole[end:found])
            end = found + len(mark)
        pieces.append(whole[end:])
        if any(_MARK.partition("{")[0] in piece for piece in pieces):
            raise RowRefused("template_rewrites", "the chat template repeats a message")
        leads = self._leads(messages, whole)
        lead = leads.pop() if leads else ""
        if leads or any(
            not piece.endswith(lead) for piece, role in zip(pieces, roles, strict=False) if role == "assistant"
        ):
            raise RowRefused("template_rewrites", "the chat template begins some turns with spaces, others without")
        return Shape(tuple(pieces), lead)

    def _leads(self, messages: Sequence[Message], whole: str) -> set[str]:
        """What stands between the prompts of turns and their contents: nothing, or spaces. Raises RowRefused."""
        turns = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        if len(messages) > _ALL_PROMPTS:
            turns = sorted({*turns[:8], *turns[:: len(turns) // 8 or 1], *turns[-8:]})
        found = set()
        for turn in turns:
            if not turn:
                continue
            before = whole.partition(messages[turn]["content"])[0]
            prompt = self.render(messages[:turn], prompt=True)
            if not before.startswith(prompt) or before[len(prompt) :].strip(" "):
                raise RowRefused(
                    "template_rewrites",
                    f"the prompt of message {turn} is not how the whole conversation begins: the chat template writes "
                    "earlier turns otherwise once later ones are there",
                )
            found.add(before[len(prompt) :])
        return found


def read_template(folder: Path) -> ChatTemplate:
    """The chat template in a tokenizer's folder: chat_template.jinja, else that of tokenizer_config.json.

    Raises ConfigurationError when there is none.
    """
    settings = _settings(folder / "tokenizer_config.json")
    file = folder / "chat_template.jinja"
    source = file.read_text(encoding="utf-8") if file.is_file() else settings.get("chat_template")
    if isinstance(source, list):
        source = next((named["template"] for named in source if named["name"] == "default"), None)
    if not isinstance(source, str):
        raise ConfigurationError(f"tokenizer: {folder} has no chat template (chat_template.jinja or a setting)")
    words = {name: _token_text(value) for name, value in settings.items() if name.endswith("_token") and value}
    return ChatTemplate(source, words)


def _settings(file: Path) -> dict[str, object]:
    if not file.is_file():
        return {}
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"tokenizer: {file} cannot be read ({error})") from error
    if not isinstance(settings, dict):
        raise ConfigurationError(f"tokenizer: {file} holds no settings")
    return settings


def _trimmed(message: Message) -> Message:
    return {**message, "content": message["content"].strip()}


def _token_text(value: object) -> str:
    return str(value["content"]) if isinstance(value, dict) else str(value)


def _turn_at(place: int, pieces: Sequence[str], messages: Sequence[Message]) -> int:
    """The message at, or next after, a place in the whole text."""
    end = 0
    for turn, message in enumerate(messages):
        end += len(pieces[turn]) + len(message["content"])
        if place < end:
            return turn
    return len(messages) - 1


class _Generation(Extension):
    """`{% generation %}` marks what the model wrote; we know that from the roles."""

    tags = {"generation"}  # noqa: RUF012 the base class declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _compile(source: str) -> Template:
    """As templates of models expect it: jinja's sandbox, trimmed blocks, and the two functions that all may call.

    The date is not among them: a version would have other tokens tomorrow, and templates have a date of their own then.
    """
    environment: Environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise ConfigurationError(f"tokenizer: its chat template cannot be read ({error})") from error


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
