"""Reading and changing the text of a Dockerfile as the classic builder reads it. Nothing is built here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_ESCAPE = re.compile(r"^\s*#\s*escape\s*=\s*(\S)\s*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"^\s*#\s*\w+\s*=")
_FROM = re.compile(r"^(\s*FROM\s+(?:--platform=\S+\s+)?)(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_ARG = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE | re.DOTALL)
_COPY_FROM = re.compile(r"^\s*COPY\s+(?:--\S+\s+)*--from=(\S+)", re.IGNORECASE)
_LINE = re.compile(r"(parse error (?:on )?line )(\d+)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its lines in the file (from, to) and its text with continuations joined, comments dropped."""

    first: int
    last: int
    text: str

    @property
    def word(self) -> str:
        """The instruction's name in upper case."""
        return self.text.split(None, 1)[0].upper() if self.text.strip() else ""


def instructions(text: str) -> list[Instruction]:
    """All instructions of a Dockerfile. Heredocs are not known here: the classic builder does not know them either."""
    lines = text.removeprefix("\ufeff").splitlines()
    escape = _escape(lines)
    found: list[Instruction] = []
    first, parts = 0, list[str]()
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("#") or not stripped:
            # Comments and empty lines inside a continued instruction belong to nobody, and do not end it.
            continue
        if not parts:
            first = number
        if line.rstrip().endswith(escape):
            parts.append(line.rstrip()[:-1])
            continue
        parts.append(line)
        found.append(Instruction(first, number, "".join(parts)))
        parts = []
    if parts:
        found.append(Instruction(first, len(lines) - 1, "".join(parts)))
    return found


def external_images(text: str) -> list[str]:
    """References that must exist outside the Dockerfile (FROM and COPY --from), in order, each once.

    Variables are replaced by the defaults of the ARGs before the first FROM; what stays unknown is left as it is.
    """
    stages: set[str] = {"scratch"}
    references: dict[str, None] = {}
    defaults: dict[str, str] = {}
    started = False
    for instruction in instructions(text):
        if (argument := _ARG.match(instruction.text)) and not started:
            defaults |= _defaults(argument[1])
        elif match := _FROM.match(instruction.text):
            started = True
            reference = expand(match[2], defaults)
            if reference.lower() not in stages:
                references[reference] = None
            if match[3]:
                stages.add(match[3].lower())
        elif copied := _COPY_FROM.match(instruction.text):
            reference = expand(copied[1], defaults)
            if not reference.isdigit() and reference.lower() not in stages:
                references[reference] = None
    return list(references)


def with_arguments(text: str, names: Iterable[str]) -> str:
    """Declare build arguments in every stage: RUN lines see them, and the finished image does not keep them."""
    declared = [f"ARG {name}" for name in sorted(names)]
    if not declared:
        return text
    ends = {instruction.last for instruction in instructions(text) if instruction.word == "FROM"}
    lines: list[str] = []
    for number, line in enumerate(text.splitlines()):
        lines.append(line)
        if number in ends:
            lines += declared
    return "\n".join(lines) + "\n"


def with_original_lines(error: str, text: str, names: Iterable[str]) -> str:
    """An engine's message about `with_arguments(text, names)` with the line numbers that `text` has."""
    added = len(set(names))
    ends = [instruction.last for instruction in instructions(text) if instruction.word == "FROM"]

    def original(match: re.Match[str]) -> str:
        # Lines count from 1 in messages and from 0 here.
        number = int(match[2])
        for end in ends:
            if number > end + 1:
                number = max(end + 1, number - added)
        return f"{match[1]}{number}"

    return _LINE.sub(original, error)


def replace_images(text: str, replacement: Callable[[str], str]) -> str:
    """Put `replacement(reference)` in the place of every FROM reference; variables in it are resolved first."""
    defaults: dict[str, str] = {}
    started = False
    lines = text.splitlines()
    for instruction in instructions(text):
        if (argument := _ARG.match(instruction.text)) and not started:
            defaults |= _defaults(argument[1])
        elif match := _FROM.match(instruction.text):
            started = True
            reference = expand(match[2], defaults)
            if (new := replacement(reference)) != reference:
                name = f" AS {match[3]}" if match[3] else ""
                lines[instruction.first] = f"{match[1]}{new}{name}"
                for number in range(instruction.first + 1, instruction.last + 1):
                    lines[number] = ""
    return "\n".join(lines) + "\n"


def expand(text: str, values: dict[str, str]) -> str:
    """Replace $NAME, ${NAME} and ${NAME:-default}; a name without a value stays as it is."""

    def value(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[3])
        return known if known else match[2] if match[2] is not None else match[0]

    return _VARIABLE.sub(value, text)


def _defaults(arguments: str) -> dict[str, str]:
    """`NAME=value` of one ARG line; a name without a default has none."""
    pairs = (word.partition("=") for word in arguments.split())
    return {name: value.strip("\"'") for name, equals, value in pairs if equals}


def _escape(lines: list[str]) -> str:
    """The continuation character: directives count only before anything else."""
    for line in lines:
        if match := _ESCAPE.match(line):
            return match[1]
        if not _DIRECTIVE.match(line):
            break
    return "\\"
