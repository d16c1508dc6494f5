"""What a command at a terminal is for, and what it is done to, by its words.

A command of several lines or parts is of the phase of its weightiest part: what changes files counts more than what
only looks. Shell syntax is read by shlex where it can, by blanks where it cannot; nothing is run or expanded.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

Phase = Literal["explore", "setup", "edit", "build", "run", "verify"]

_WEIGHT: dict[Phase, int] = {"explore": 0, "run": 1, "verify": 2, "build": 3, "setup": 4, "edit": 5}


def _all(phase: Phase, words: str) -> dict[str, Phase]:
    return dict.fromkeys(words.split(), phase)


_PROGRAMS: dict[str, Phase] = {
    **_all(
        "explore",
        "ls cat find grep rg egrep head tail less more tree stat file wc pwd cd which type du df env printenv id ps "
        "whoami uname awk cut sort uniq nl xxd od hexdump strings jq readlink realpath history man",
    ),
    **_all("setup", "apt apt-get apk dpkg pip pip3 npm yarn pnpm gem cargo-install conda composer"),
    **_all(
        "edit", "tee patch mv cp rm mkdir rmdir touch ln chmod chown truncate install unzip tar gunzip gzip zip rename"
    ),
    **_all("build", "make cmake gcc g++ cc c++ clang javac mvn gradle cargo tsc configure ninja meson"),
    **_all("verify", "pytest tox diff cmp test [ sha256sum md5sum sha1sum phpunit jest"),
}
_SUBCOMMANDS: dict[tuple[str, str], Phase] = {
    ("git", "log"): "explore",
    ("git", "show"): "explore",
    ("git", "status"): "explore",
    ("git", "diff"): "explore",
    ("git", "blame"): "explore",
    ("git", "apply"): "edit",
    ("git", "checkout"): "edit",
    ("git", "commit"): "edit",
    ("git", "add"): "edit",
    ("npm", "run"): "build",
    ("npm", "test"): "verify",
    ("go", "build"): "build",
    ("go", "test"): "verify",
    ("go", "get"): "setup",
    ("go", "mod"): "setup",
    ("cargo", "test"): "verify",
    ("make", "test"): "verify",
    ("make", "check"): "verify",
}
_WRITES = re.compile(r"(?<![0-9&>])>{1,2}\s*(?!&|/dev/)(?P<file>[^\s;&|>]+)")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(?P<end>\w+)['\"]?")
_PREFIXES = frozenset({"sudo", "time", "nice", "env", "command", "exec", "then", "do", "else", "!", "timeout", "xargs"})
_SEPARATORS = frozenset({"|", "||", "&&", ";", "&", "|&"})


@dataclass(frozen=True)
class Part:
    """One program with its words."""

    program: str
    words: tuple[str, ...]
    phase: Phase

    @property
    def thing(self) -> str:
        """What it is done to: its last word that is no option."""
        things = [word for word in self.words if not word.startswith("-") and word not in (self.program, "install")]
        return things[-1] if things else ""


@dataclass(frozen=True)
class Command:
    """What a command is for."""

    phase: Phase
    parts: tuple[Part, ...]
    written: tuple[str, ...]
    """Files that it writes by redirection."""

    @property
    def main(self) -> Part | None:
        """The weightiest part, the last one of those that are."""
        best = [part for part in self.parts if part.phase == self.phase] or list(self.parts)
        return best[-1] if best else None

    @property
    def thing(self) -> str:
        """What it is done to."""
        if self.written and self.phase == "edit":
            return self.written[-1]
        return self.main.thing if self.main else ""


def command(text: str) -> Command:
    """A command as the rules read it."""
    script = _without_heredocs(text)
    written = tuple(dict.fromkeys(found["file"].strip("'\"") for found in _WRITES.finditer(script)))
    parts = tuple(part for line in script.split("\n") for part in _parts(line))
    phases: list[Phase] = [part.phase for part in parts]
    if written:
        phases.append("edit")
    phase = max(phases, key=_WEIGHT.__getitem__) if phases else "run"
    return Command(phase, parts, written)


def _without_heredocs(text: str) -> str:
    """The lines that are commands: what a heredoc holds is data."""
    kept, end = [], None
    for line in text.split("\n"):
        if end is not None:
            if line.strip() == end:
                end = None
            continue
        kept.append(line)
        if found := _HEREDOC.search(line):
            end = found["end"]
    return "\n".join(kept)


def _parts(line: str) -> list[Part]:
    try:
        reader = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        reader.whitespace_split = True
        words = list(reader)
    except ValueError:  # a quote that goes on in the next line
        words = line.split()
    found: list[Part] = []
    current: list[str] = []
    for word in [*words, ";"]:
        if word not in _SEPARATORS:
            current.append(word)
            continue
        if part := _part(current):
            found.append(part)
        current = []
    return found


def _part(words: list[str]) -> Part | None:
    rest = list(words)
    while rest and (rest[0] in _PREFIXES or re.fullmatch(r"\w+=.*", rest[0]) or rest[0] in "()"):
        rest.pop(0)
    if not rest or rest[0].startswith("#"):
        return None
    program = rest[0].rsplit("/", 1)[-1]
    arguments = []
    for word in rest[1:]:
        if word[0:1] in "<>":
            break
        arguments.append(word)
    return Part(program, tuple(arguments), _phase(program, arguments))


def _phase(program: str, arguments: list[str]) -> Phase:
    first = next((word for word in arguments if not word.startswith("-")), "")
    if (program, first) in _SUBCOMMANDS:
        return _SUBCOMMANDS[program, first]
    if program == "sed":
        return "edit" if any(re.match(r"-\w*i", word) for word in arguments) else "explore"
    if program.startswith("python") and arguments[:2] == ["-m", "pytest"]:
        return "verify"
    if program.startswith("python") and arguments[:2] == ["-m", "pip"]:
        return "setup"
    if program in ("echo", "printf"):
        return "explore"
    return _PROGRAMS.get(program, "run")
