"""A Dockerfile in the words that the builders of this engine understand, with the same meaning.

Authors write for the newest builder and let it fetch its own front end (`# syntax=`), which would run unknown code in
the engine's place: those lines are dropped, and what remains is said in older words or given to BuildKit. Which image
stands behind a reference is not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from sandbox.building.dockerfile_text import Stage, expand, instructions, lines_of, put, source_of, stages
from sandbox.building.heredocs import lowered

_SYNTAX = re.compile(r"^\s*#\s*(?:syntax|check)\s*=", re.IGNORECASE)
_DIRECTIVE = re.compile(r"^\s*#\s*\w+\s*=")
# Flags that change how fast a step is, or ask for rights that no build gets here; without them it does the same.
_DROPPED = {
    "COPY": re.compile(r"\s--link(?:=\w+)?(?=\s)", re.IGNORECASE),
    "ADD": re.compile(r"\s--link(?:=\w+)?(?=\s)", re.IGNORECASE),
    "RUN": re.compile(r"\s--(?:network|security)=\S+(?=\s)", re.IGNORECASE),
}
_PLATFORM = re.compile(r"(\s)--platform=(\S+)\s+", re.IGNORECASE)
_BUILDKIT = re.compile(
    r"^\s*(?:RUN\s+--\w|(?:COPY|ADD)\s+(?:--\S+\s+)*--(?:chmod|parents|exclude|checksum|keep-git-dir|unpack)\b"
    r"|ADD\s+(?:--\S+\s+)*(?:git@|(?:git|ssh)://|https?://\S+\.git(?:[#\s]|$)))",
    re.IGNORECASE,
)
_CACHE_MOUNT = re.compile(r"--mount=((?:[^\s,]+,)*type=cache\b[^\s]*)", re.IGNORECASE)
_URL = re.compile(r"(?:\w+://|git@)\S+")
_PORTS = {"http": 80, "https": 443, "git": 9418, "ssh": 22}
_DECLARED = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Platform:
    """What an engine builds for, e.g. linux/amd64."""

    os: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"

    @property
    def arguments(self) -> dict[str, str]:
        """The build arguments that BuildKit sets by itself where they are declared."""
        values = {"PLATFORM": str(self), "OS": self.os, "ARCH": self.architecture, "VARIANT": ""}
        return {f"{side}{name}": value for side in ("TARGET", "BUILD") for name, value in values.items()}


@dataclass(frozen=True)
class Portable:
    """A Dockerfile for the builders of one engine."""

    text: str
    files: dict[str, str]
    """Context files (path -> text) that it needs."""
    buildkit: bool
    """Whether only BuildKit understands it."""
    arguments: dict[str, str]
    """Values of the platform's arguments that it declares."""
    foreign: str | None
    """A platform that it asks for and that is not the engine's."""


def portable(text: str, platform: Platform) -> Portable:
    """`text` without what an engine for `platform` need not know. Every line that stays keeps its number."""
    text, files = lowered(_without_syntax(text))
    text, foreign = _own_platform(_without_flags(text), platform)
    text = _without_unused_stages(text, platform.arguments)
    steps = instructions(text)
    declared = {
        word.partition("=")[0] for step in steps if (match := _DECLARED.match(step.text)) for word in match[1].split()
    }
    return Portable(
        text=text,
        files=files,
        buildkit=any(_BUILDKIT.match(step.text) for step in steps),
        arguments={name: value for name, value in platform.arguments.items() if name in declared},
        foreign=foreign,
    )


def with_own_caches(text: str, owner: str) -> str:
    """With the caches of its mounts named after `owner`: what one repository puts there, no other must get."""

    def renamed(match: re.Match[str]) -> str:
        options = match[1].split(",")
        values = {name: value for name, _, value in (option.partition("=") for option in options)}
        name = values.get("id") or values.get("target") or values.get("dst") or values.get("destination", "")
        kept = [option for option in options if not option.startswith("id=")]
        return "--mount=" + ",".join([*kept, f"id={owner}-{name}"])

    lines = lines_of(text)
    for step in instructions(text):
        if step.word == "RUN" and _CACHE_MOUNT.search(step.text):
            put(lines, step, _CACHE_MOUNT.sub(renamed, step.text))
    return "\n".join(lines) + "\n"


def downloads(text: str) -> list[tuple[str, int]]:
    """Host and port of every URL that an ADD names: the engine itself fetches those, not a step.

    Variables have the values that the Dockerfile gives them; a host that stays unknown is given as it is written.
    """
    found = []
    values: dict[str, str] = {}
    for step in instructions(text):
        words = step.text.split()
        if step.word in ("ARG", "ENV"):
            values |= {name: value.strip("\"'") for name, _, value in (word.partition("=") for word in words[1:])}
        elif step.word == "ADD":
            for word in _URL.findall(step.text):
                address = urlsplit(expand(word.strip("\"'[],"), values))
                found.append((address.netloc.rpartition("@")[2].partition(":")[0], _port(address)))
    return found


def _port(address: SplitResult) -> int:
    try:
        return address.port or _PORTS.get(address.scheme.lower(), 443)
    except ValueError:
        return 0


def _without_syntax(text: str) -> str:
    """Only directives may stand before a directive, so the one that matters (escape) moves to the top."""
    lines = lines_of(text)
    end = next((number for number, line in enumerate(lines) if not _DIRECTIVE.match(line)), len(lines))
    head = lines[:end]
    kept = [line for line in head if not _SYNTAX.match(line)]
    return "\n".join([*kept, *["#"] * (len(head) - len(kept)), *lines[end:]]) + "\n"


def _without_flags(text: str) -> str:
    lines = lines_of(text)
    for step in instructions(text):
        pattern = _DROPPED.get(step.word)
        head = re.match(r"^\s*\w+(?:\s+--\S+)*\s", step.text)
        if pattern and head and (new := pattern.sub("", head[0])) != head[0]:
            put(lines, step, new + step.text[head.end() :])
    return "\n".join(lines) + "\n"


def _own_platform(text: str, platform: Platform) -> tuple[str, str | None]:
    """Without the platforms of its FROM lines that are the engine's, and the first that is another."""
    lines = lines_of(text)
    foreign = None
    for step in instructions(text):
        if step.word != "FROM" or not (match := _PLATFORM.search(step.text)):
            continue
        wanted = match[2].strip("\"'")
        for name, value in platform.arguments.items():
            wanted = wanted.replace(f"${{{name}}}", value).replace(f"${name}", value)
        # An argument that the author's own scripts would set: for everybody else it is the machine's platform.
        if "$" in wanted or wanted.startswith(str(platform)):
            put(lines, step, _PLATFORM.sub(r"\1", step.text, count=1))
        else:
            foreign = foreign or wanted
    return "\n".join(lines) + "\n", foreign


def _without_unused_stages(text: str, values: Mapping[str, str]) -> str:
    """Without the stages that the last one does not need: BuildKit passes over them, the classic builder would not.

    Where a stage is named by its number or a variable all stay: numbers would change.
    """
    found = stages(text, values)
    sources = [source_of(step, {}) or "" for stage in found for step in stage.steps]
    if len(found) < 2 or any(source.isdigit() or "$" in source for source in sources):
        return text
    needed = _needed(found)
    lines = lines_of(text)
    for number, stage in enumerate(found):
        if number not in needed:
            for line in range(stage.steps[0].first, stage.steps[-1].last + 1):
                lines[line] = ""
    return "\n".join(lines) + "\n"


def _needed(found: list[Stage]) -> set[int]:
    """Numbers of the stages that the last one is made from, itself included."""
    needed: set[int] = set()
    waiting = [len(found) - 1]
    while waiting:
        number = waiting.pop()
        if number in needed:
            continue
        needed.add(number)
        stage = found[number]
        names = {stage.base.lower(), *((source_of(step, {}) or "").lower() for step in stage.steps)}
        waiting += [earlier for earlier in range(number) if found[earlier].name in names]
    return needed
