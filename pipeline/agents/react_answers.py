"""Finds the action in answers of the form `Thought: … Action: …`. What stands behind the first action is not read."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from pipeline.agents.bash_answers import SHELLS, Heredocs
from pipeline.agents.bash_answers import read as read_shell
from pipeline.llm.answers import blocks, plain

DONE = "DONE"
"""The action that hands in, where the environment does not end by itself."""
NO_ACTION = (
    "[no action] Your answer has no action. Answer with a line that begins with `Thought:` and one that begins with "
    "`Action:`."
)
SEVERAL_LINES = "[no action] A command of several lines must stand in a ```bash block behind `Action:`."
CUT = "[no action] Your answer was cut off and not carried out: be shorter."
_MARK = re.compile(
    r"^[^\w\n]*?(?P<bold>\*\*|__)?action(?:[ \t]*\d+)?[ \t]*"
    r"(?(bold)(?:(?P=bold)[ \t]*:|:[ \t]*(?P=bold))|:)[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(r"[^\w\n]*(?:thought|observation|action)(?:[ \t]*\d+)?[ \t*_]*:[ \t*_]*", re.IGNORECASE)
_FENCE = re.compile(r"(?:`{3,}|~{3,})\w*")
_SPAN = re.compile(r"`([^`]+)`")


class Answer(NamedTuple):
    """What a model answered."""

    thought: str
    """All that was said, when there is no action."""
    action: str | None
    told: str = ""
    """Why there is no action, in words for the model."""


def read(answer: str, *, shell: bool, cut: bool) -> Answer:
    """`shell`: the action is a command, else a line of a game; `cut`: the answer ends where its room did.

    An action that a cut may have shortened is none: `rm -r /work` may have been `rm -r /work/old`.
    """
    found = _read(answer, shell)
    if not cut:
        return found
    whole = all(_read(answer + more, shell).action == found.action for more in ("x", "\n."))
    return found if whole and found.action else Answer(plain(answer).strip(), None, CUT)


def _read(answer: str, shell: bool) -> Answer:
    text = plain(answer)
    behind = _behind_the_mark(text)
    thought = _thought(text if behind is None else text[: behind[0]])
    rest = None if behind is None else text[behind[1] :]
    action, told = _command(text, rest) if shell else (_line(text, rest), NO_ACTION)
    if action is None:
        return Answer(text.strip(), None, told)
    return Answer(thought if behind is not None else _thought(read_shell(text)[0]) if shell else "", action)


def _behind_the_mark(text: str) -> tuple[int, int] | None:
    """Where the first mark of an action begins and ends; those in scripts are no marks."""
    scripts = [block for block in blocks(text) if block.language in SHELLS - {""}]
    for found in _MARK.finditer(text):
        line = text.count("\n", 0, found.start())
        if not any(block.line < line <= block.line + block.text.count("\n") for block in scripts):
            return found.start(), found.end()
    return None


def _thought(text: str) -> str:
    lines = [line for line in text.split("\n") if not _FENCE.fullmatch(line.strip())]
    said = "\n".join(lines).strip()
    label = _LABEL.match(said)
    return said[label.end() :].strip() if label else said


def _line(text: str, rest: str | None) -> str | None:
    """The action in a game; an answer that is nothing but one line is one too."""
    lines = [line.strip() for line in (text if rest is None else rest).split("\n")]
    lines = [line for line in lines if line and not _FENCE.fullmatch(line)]
    if not lines or _LABEL.match(lines[0]) or (rest is None and len(lines) > 1):
        return None
    return lines[0].strip("`*\"'<> ") or None


def _command(text: str, rest: str | None) -> tuple[str | None, str]:
    """The command and, where there is none, why."""
    if rest is None or rest.lstrip().startswith(("```", "~~~")):
        _, command, done = read_shell(text if rest is None else rest)
        return command or (DONE if done else None), NO_ACTION
    line = next((line.strip() for line in rest.split("\n") if line.strip()), "")
    if not line or _LABEL.match(line):
        return None, NO_ACTION
    alone = _SPAN.fullmatch(line)
    line = (alone[1] if alone else line).removeprefix("$ ").strip()
    if not _is_whole(line):
        return None, SEVERAL_LINES
    return (DONE if line.strip("`*.\"' ") == DONE else line) or None, NO_ACTION


def _is_whole(line: str) -> bool:
    """Whether a shell would run the line without waiting for more."""
    heredocs = Heredocs()
    heredocs.take(line)
    if heredocs.open or line.endswith("\\"):
        return False
    try:
        shlex.split(line)
    except ValueError:
        return False
    return True
