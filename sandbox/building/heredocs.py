"""Dockerfiles without heredocs, for builders that do not know them: RUN gets its script as an argument, COPY a file.

What a shell inside of a command does with `<<` is its own business and stays. Other dialects are in dialect.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from sandbox.building.dockerfile_text import Heredoc, Instruction, lines_of, put, stages

FOLDER = ".touchstone/heredocs"
SHELL = ("/bin/sh", "-c")
_STEP = re.compile(r"^(\s*\w+(?:\s+--\S+)*)\s+(.*)$", re.DOTALL)
_PAIR = re.compile(r"(\w+)=((?:[^\s\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')*)")
_REFERENCE = re.compile(r"\\(.)|\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
# A script that names its interpreter is run from a file, and the file is gone afterwards.
_RUN_FILE = (
    'file=$(mktemp) && printf %s "$0" > "$file" && chmod 700 "$file" && "$file"; code=$?; rm -f "$file"; exit $code'
)


@dataclass
class _Scope:
    """What is known at one point of a stage."""

    shell: tuple[str, ...] = SHELL
    values: dict[str, str] = field(default_factory=dict)
    """Variables of ENV and ARG with a value."""

    def copy(self) -> _Scope:
        return _Scope(self.shell, dict(self.values))


def lowered(text: str) -> tuple[str, dict[str, str]]:
    """The Dockerfile without heredocs, each line where it was, and the context files (path -> text) it needs."""
    lines = lines_of(text)
    files: dict[str, str] = {}
    scopes: dict[str, _Scope] = {}
    for stage in stages(text):
        scope = scopes.get(stage.base.lower(), _Scope()).copy()
        for step in stage.steps:
            _learn(scope, step)
            if step.heredocs:
                new = _run(step, scope) if step.word == "RUN" else _copy(step, scope, files)
                for number in range(step.first, step.last + 1):
                    lines[number] = ""
                put(lines, Instruction(step.first, step.first, step.text), new)
        scopes[stage.name] = scope
    return "\n".join(lines) + "\n", files


def _learn(scope: _Scope, step: Instruction) -> None:
    match = _STEP.match(step.text)
    if match is None:
        return
    if step.word == "SHELL":
        try:
            scope.shell = tuple(map(str, json.loads(match[2])))
        except (ValueError, RecursionError):
            return  # The builder will say what is wrong with it.
    elif step.word in ("ENV", "ARG"):
        pairs = _PAIR.findall(match[2])
        if not pairs and step.word == "ENV":
            name, _, value = match[2].partition(" ")
            pairs = [(name, value.strip())]
        scope.values |= {name: _expanded(value.strip("\"'"), scope.values) for name, value in pairs}


def _run(step: Instruction, scope: _Scope) -> str:
    """A RUN whose script is an argument of the shell, in the form that no builder changes."""
    match = _STEP.match(step.text)
    assert match is not None, step
    head, command = match[1], match[2].strip()
    first = step.heredocs[0]
    if command != first.word:
        # The shell itself reads what follows a command.
        bodies = "".join(f"{one.body}{one.name}\n" for one in step.heredocs)
        words = [*scope.shell, f"{command}\n{bodies}"]
    elif first.without_tabs.startswith("#!"):
        words = [*SHELL, _RUN_FILE, first.without_tabs]
    else:
        words = [*scope.shell, first.without_tabs]
    return f"{head} {json.dumps(words, ensure_ascii=False)}"


def _copy(step: Instruction, scope: _Scope, files: dict[str, str]) -> str:
    """A COPY or ADD of files in the context that hold what followed it."""
    text = step.text
    for one in step.heredocs:
        path = f"{FOLDER}/{len(files)}/{one.name}"
        files[path] = _content(one, scope)
        text = text.replace(one.word, path, 1)
    return text


def _content(heredoc: Heredoc, scope: _Scope) -> str:
    return heredoc.without_tabs if heredoc.quoted else _expanded(heredoc.without_tabs, scope.values)


def _expanded(text: str, values: dict[str, str]) -> str:
    """With the variables that are known; those of the base image are not, and stay as they are."""

    def value(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1] if match[1] in "$\\" else match[0]
        name, default = match[2] or match[4], match[3]
        return values.get(name, match[0] if default is None else default)

    return _REFERENCE.sub(value, text)
