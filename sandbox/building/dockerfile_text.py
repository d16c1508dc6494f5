"""Reading and changing the text of a Dockerfile as the engine's builders read it. Nothing is built here.

What only some builders understand is rewritten in dialect.py and heredocs.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

_ESCAPE = re.compile(r"^\s*#\s*escape\s*=\s*(\S)\s*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"^\s*#\s*\w+\s*=")
_FROM = re.compile(r"^(\s*FROM\s+(?:--platform=\S+\s+)?)(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_ARG = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE | re.DOTALL)
_SOURCE = re.compile(
    r"^\s*(?:COPY\s+(?:--\S+\s+)*--from=|RUN\s+(?:--\S+\s+)*--mount=(?:\S*,)?from=)([^\s,]+)", re.IGNORECASE
)
_LINE = re.compile(r"(parse error (?:on )?line )(\d+)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_TAKES_HEREDOCS = re.compile(r"^\s*(?:RUN|COPY|ADD)\s", re.IGNORECASE)
_WORD = re.compile(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+")
_HEREDOC = re.compile(r"^\d*<<(-?)([^<\s]+)$")


@dataclass(frozen=True)
class Heredoc:
    """A text that follows its instruction, as `<<EOF` has it."""

    word: str
    """How the instruction refers to it, e.g. `<<-'EOF'`."""
    name: str
    body: str
    """Its lines, each with its end; tabs are kept."""

    @property
    def quoted(self) -> bool:
        """Whether variables in it stay as they are."""
        return "'" in self.word or '"' in self.word

    @property
    def without_tabs(self) -> str:
        """The body as its reader gets it."""
        return (
            re.sub(r"^\t+", "", self.body, flags=re.MULTILINE)
            if self.word.lstrip("0123456789")[2] == "-"
            else self.body
        )


@dataclass(frozen=True)
class Instruction:
    """One instruction: its lines in the file (from, to) and its text with continuations joined, comments dropped."""

    first: int
    last: int
    text: str
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def word(self) -> str:
        """The instruction's name in upper case."""
        return self.text.split(None, 1)[0].upper() if self.text.strip() else ""


@dataclass(frozen=True)
class Stage:
    """One stage of a Dockerfile."""

    name: str
    """In lower case; its number when it has no name."""
    base: str
    """What its FROM names, variables replaced as far as they are known."""
    steps: tuple[Instruction, ...]
    """Its FROM and all that follows."""


def lines_of(text: str) -> list[str]:
    """The lines of a Dockerfile, whatever they end with."""
    return re.split(r"\r\n|\n", text.removeprefix("\ufeff").removesuffix("\n").removesuffix("\r"))


def instructions(text: str) -> list[Instruction]:
    """All instructions of a Dockerfile, each with its heredocs."""
    lines = lines_of(text)
    escape = escape_of(text)
    found: list[Instruction] = []
    first, parts = 0, list[str]()
    number = -1
    while (number := number + 1) < len(lines):
        line = lines[number]
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
        joined = "".join(parts)
        heredocs = _heredocs(joined, lines, number + 1)
        number += sum(one.body.count("\n") + 1 for one in heredocs)
        found.append(Instruction(first, number, joined, heredocs))
        parts = []
    if parts:
        found.append(Instruction(first, len(lines) - 1, "".join(parts)))
    return found


def _heredocs(text: str, lines: list[str], start: int) -> tuple[Heredoc, ...]:
    """The heredocs of an instruction whose following lines begin at `start`; none when one of them has no end."""
    if "<<" not in text or not _TAKES_HEREDOCS.match(text):
        return ()
    found = []
    for word in _WORD.findall(text):
        if not (match := _HEREDOC.match(word)):
            continue
        name = re.sub(r"[\"']", "", match[2])
        end = start
        while end < len(lines) and (lines[end].lstrip("\t") if match[1] else lines[end]) != name:
            end += 1
        if end == len(lines):
            return ()
        found.append(Heredoc(word, name, "".join(f"{line}\n" for line in lines[start:end])))
        start = end + 1
    return tuple(found)


def stages(text: str, values: Mapping[str, str] | None = None) -> list[Stage]:
    """The stages of a Dockerfile in their order; `values` are variables that the builder sets."""
    found: list[Stage] = []
    known = dict(values or {})
    steps: list[Instruction] = []
    for instruction in instructions(text):
        if (argument := _ARG.match(instruction.text)) and not found:
            known |= {name: value for name, value in _defaults(argument[1]).items() if name not in (values or {})}
        elif match := _FROM.match(instruction.text):
            steps = []
            name = (match[3] or str(len(found))).lower()
            found.append(Stage(name, expand(match[2], known), ()))
        if found:
            steps.append(instruction)
            found[-1] = Stage(found[-1].name, found[-1].base, tuple(steps))
    return found


def source_of(step: Instruction, values: Mapping[str, str]) -> str | None:
    """The stage or image that a COPY or a mount of a RUN takes files from; None when it takes none."""
    match = _SOURCE.match(step.text)
    return expand(match[1], values) if match else None


def external_images(text: str, values: Mapping[str, str] | None = None) -> list[str]:
    """References that must exist outside the Dockerfile (FROM, COPY --from, mounts), in order, each once.

    Variables are replaced by `values` and the defaults of the ARGs before the first FROM; what stays unknown is left.
    """
    known = global_arguments(text) | dict(values or {})
    inside = {"scratch"}
    references: dict[str, None] = {}
    for stage in stages(text, values):
        named = [stage.base, *(source_of(step, known) for step in stage.steps)]
        for reference in named:
            if reference and not reference.isdigit() and reference.lower() not in inside:
                references[reference] = None
        inside.add(stage.name)
    return list(references)


def global_arguments(text: str) -> dict[str, str]:
    """The ARGs before the first FROM that have a default."""
    found: dict[str, str] = {}
    for instruction in instructions(text):
        if instruction.word == "FROM":
            break
        if argument := _ARG.match(instruction.text):
            found |= _defaults(argument[1])
    return found


def with_arguments(text: str, names: Iterable[str]) -> str:
    """Declare build arguments in every stage: RUN lines see them, and the finished image does not keep them."""
    declared = [f"ARG {name}" for name in sorted(names)]
    if not declared:
        return text
    ends = {instruction.last for instruction in instructions(text) if instruction.word == "FROM"}
    lines: list[str] = []
    for number, line in enumerate(lines_of(text)):
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


def replace_images(text: str, replacement: Callable[[str], str], values: Mapping[str, str] | None = None) -> str:
    """Put `replacement(reference)` in the place of every reference to an image; variables in it are resolved first."""
    known = global_arguments(text) | dict(values or {})
    lines = lines_of(text)
    for stage in stages(text, values):
        for step in stage.steps:
            if match := _FROM.match(step.text):
                reference = stage.base
            elif match := _SOURCE.match(step.text):
                reference = expand(match[1], known)
            else:
                continue
            group = 2 if step.word == "FROM" else 1
            if (new := replacement(reference)) != reference:
                changed = step.text[: match.start(group)] + new + step.text[match.end(group) :]
                put(lines, step, changed)
    return "\n".join(lines) + "\n"


def put(lines: list[str], step: Instruction, text: str) -> None:
    """Write `text` (one line) in the place of an instruction; its heredocs stay, and no other line moves."""
    bodies = sum(one.body.count("\n") + 1 for one in step.heredocs)
    lines[step.first] = text
    for number in range(step.first + 1, step.last + 1 - bodies):
        lines[number] = ""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace $NAME, ${NAME} and ${NAME:-default}; a name without a value stays as it is."""

    def value(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[3])
        return known if known else match[2] if match[2] is not None else match[0]

    return _VARIABLE.sub(value, text)


def _defaults(arguments: str) -> dict[str, str]:
    """`NAME=value` of one ARG line; a name without a default has none."""
    pairs = (word.partition("=") for word in arguments.split())
    return {name: value.strip("\"'") for name, equals, value in pairs if equals}


def escape_of(text: str) -> str:
    """The continuation character: directives count only before anything else."""
    for line in lines_of(text):
        if match := _ESCAPE.match(line):
            return match[1]
        if not _DIRECTIVE.match(line):
            break
    return "\\"
