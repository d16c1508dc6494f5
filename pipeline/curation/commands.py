"""What an attempt typed, without what makes no difference to somebody who learns from it.

Two attempts at one task count as the same when these agree, step by step and in order:
- prompts, comment lines, blank space outside quotes and here-documents, and continued lines are left out;
- quotes that change nothing are written in one way: none around a plain word, double ones where single ones protect
  nothing;
- names below /tmp, /var/tmp and /dev/shm are numbered in the order in which they come up, unless the instruction asks
  for them by name.
Everything else is a decision of the agent and stays: which program, which options, the order, other names, numbers,
what a here-document says, how commands are spread over steps, and whether they go to a shell or to a screen. Keys for
a screen are taken without their waiting times.

Which of two equal attempts is kept is decided in copies.py.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import ValidationError

from pipeline.schemas import canonical_json
from pipeline.terminal_environment import BATCH

MAX_WORDS = 100_000
"""Of a longer attempt, half as many words from each end are in its signature; its hash is of all of it."""
MAX_CHARACTERS = 2_000_000
"""A longer command is compared as it stands, and half as many characters from each end are in the signature."""
STEP = "\n"
"""The word between two steps."""

_TOKEN = re.compile(
    r"""<<-?[ \t]*(?:'\w+'|"\w+")
    |(?P<single>'[^']*+')
    |(?P<double>"(?:[^"\\]++|\\.)*+")
    |(?P<blank>(?:[ \t\r]|\\\r?\n)++(?:\n[ \t\r]*+(?:\#[^\n]*+|\$[ \t]++)?+)*+
              |(?:\n[ \t\r]*+(?:\#[^\n]*+|\$[ \t]++)?+)++)
    |\\.""",
    re.VERBOSE | re.DOTALL,
)
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_PLAIN = re.compile(r"[\w@%+:,./-]+")
_PROTECTED = re.compile(r"[$`\\!\"]")
_TEMPORARY = re.compile(r"(?<![\w.-])/(?:var/tmp|tmp|dev/shm)/[\w.-]*[\w-]")
_WORD = re.compile(r"[\w./-]{1,200}|[^\w\s./-]{1,200}")


def typed(actions: Iterable[str], interface: str) -> list[str]:
    """The commands of an attempt; steps that did nothing are left out."""
    return [text for action in actions if (text := _keys(action) if interface == "terminal" else action)]


def normalised(commands: Iterable[str], instruction: str) -> list[str]:
    """The commands as they are compared; those that say nothing are left out."""
    names: dict[str, str] = {name: name for name in _TEMPORARY.findall(instruction)}
    asked = len(names)

    def numbered(found: re.Match[str]) -> str:
        return names.setdefault(str(found.group()), f"/tmp/{len(names) - asked + 1}")

    plain = (_TEMPORARY.sub(numbered, _canonical(command)) for command in commands)
    return [command for command in plain if command]


def normalised_prose(text: str) -> str:
    """An instruction as it is compared: blank space is one space."""
    return " ".join(text.split())


def commands_sha256(commands: Sequence[str], interface: str) -> str:
    """Of normalised commands in their order."""
    return _sha256(canonical_json([interface, list(commands)]))


def instruction_sha256(text: str) -> str:
    """Of a normalised instruction."""
    return _sha256(text)


def words(texts: Iterable[str]) -> list[str]:
    """What a signature is made of: names, numbers and paths whole, signs by runs, and a mark between two texts."""
    found = _words(texts)
    head = list(itertools.islice(found, MAX_WORDS // 2))
    return head + list(deque(found, maxlen=MAX_WORDS // 2))


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        ends = (text[: MAX_CHARACTERS // 2], text[-MAX_CHARACTERS // 2 :]) if len(text) > MAX_CHARACTERS else (text,)
        for part in ends:
            yield from (found.group() for found in _WORD.finditer(part))
        yield STEP


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _keys(action: str) -> str:
    """The keys of a batch, one after the other; an action that is none as it stands."""
    try:
        return "".join(one.keystrokes for one in BATCH.validate_json(action)) if action else ""
    except ValidationError:
        return action


def _canonical(command: str) -> str:
    if len(command) > MAX_CHARACTERS:
        return command
    parts = [text if is_document else _TOKEN.sub(_token, "\n" + text).strip() for text, is_document in _parts(command)]
    return "\n".join(part for part in parts if part)


def _parts(command: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it is the content of a here-document), in order."""
    lines: list[str] = []
    end: str | None = None
    for line in command.split("\n"):
        if end is not None and line.strip() == end:
            yield "\n".join(lines), True
            lines, end = [line], None
            continue
        lines.append(line)
        if end is None and (found := _HERE_DOCUMENT.search(line)):
            yield "\n".join(lines), False
            lines, end = [], found.group(2)
    yield "\n".join(lines), end is not None


def _token(found: re.Match[str]) -> str:
    text = found.group()
    kind = found.lastgroup
    if kind == "blank":
        return "\n" if "\n" in text.replace("\\\r\n", "").replace("\\\n", "") else " "
    if kind in ("single", "double"):
        inner = text[1:-1]
        if _PLAIN.fullmatch(inner):
            return inner
        return text if kind == "single" and _PROTECTED.search(inner) else f'"{inner}"'
    return text


def thoughts(steps: Iterable[Mapping[str, object]]) -> list[str]:
    """What the agent said beside its commands."""
    return [str(step["thought"]) for step in steps if step["thought"]]
