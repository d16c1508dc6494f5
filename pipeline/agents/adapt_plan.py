"""Parts of parts of a task: how a plan is read, which part comes next, and when the whole succeeded or failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from pipeline.llm.answers import plain
from pipeline.types import Record

MOST_PARTS = 5
"""Of one plan."""
_LONGEST_PART = 300
"""Characters."""
_PART = re.compile(
    r"[^\w\n]*(?:(?:sub-?task|step|part)[ \t]*)?\d+(?:\.\d+)*[ \t*_]*[.):-][ \t]*(?P<numbered>\S.*)"
    r"|[ \t]*[-*+•][ \t]+(?P<listed>\S.*)",
    re.IGNORECASE,
)
_JOIN = re.compile(
    r"[^\w\n]*(?:join(?:ed)?|logic|operator|(?:execution )?order)\b(?: by)?[^\w\n]*[:=](.*)", re.IGNORECASE
)
_WORD = re.compile(r"\b(and|or)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"[^\w\n]*(AND|OR)[^\w\n]*")
_AT_THE_END = re.compile(r"\s(AND|OR)[^\w\n]*$")


class NoPlan(Exception):
    """The answer cannot be used; the text says why, in words for the model."""


class Level(Record):
    """The parts of one part, or of the whole task."""

    join: Literal["and", "or"]
    parts: tuple[str, ...] = Field(min_length=1)
    at: int = 0
    """Number of the part that is worked on: those before it are done (`and`) or failed (`or`)."""

    @property
    def part(self) -> str:
        return self.parts[self.at]


def after(levels: Sequence[Level], succeeded: bool) -> tuple[Level, ...] | None:
    """Where to go on when the part that was worked on ended; None when the whole task did, with the same success.

    All parts joined by `and` have to succeed, one of those joined by `or`; the first that decides ends its level.
    """
    for depth in range(len(levels) - 1, -1, -1):
        level = levels[depth]
        if succeeded == (level.join == "and") and level.at + 1 < len(level.parts):
            return (*levels[:depth], level.model_copy(update={"at": level.at + 1}))
    return None


def read_plan(answer: str, split: str) -> Level:
    """The parts of an answer and how they are joined: by AND where nothing is said.

    `split` is what was to be split. Raises NoPlan.
    """
    parts: list[str] = []
    joins: set[str] = set()
    for line in map(str.strip, plain(answer).split("\n")):
        numbered = _PART.fullmatch(line)
        text = (numbered["numbered"] or numbered["listed"]) if numbered else line
        if found := _JOIN.match(text) or _BETWEEN.fullmatch(text):
            joins |= {word.lower() for word in _WORD.findall(found[1])}
        elif numbered:
            if end := _AT_THE_END.search(text):
                joins.add(end[1].lower())
                text = text[: end.start()]
            parts.append(text.strip(" \t*_`<>")[:_LONGEST_PART])
    parts = [part for part in parts if re.search(r"\w", part)]
    if not parts:
        raise NoPlan("it has no numbered line")
    if len(parts) > MOST_PARTS:
        raise NoPlan(f"it has {len(parts)} parts, and {MOST_PARTS} are the most")
    if len(joins) > 1:
        raise NoPlan("it joins by both AND and OR")
    if parts == [split]:
        raise NoPlan("its part is the one that was to be split")
    return Level(join="or" if joins == {"or"} else "and", parts=tuple(parts))
