"""Divides a path at a terminal by the phases of its commands, and tells progress by what they changed.

A cut is where the phase changes and after MOST_ACTIONS of one phase; a command that would be alone belongs to what
comes next, or came before. A look at a file that was written before is verifying, not exploring.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.hierarchy.by_verbs import MOST_ACTIONS, shortened
from pipeline.hierarchy.path import Annotation, Path, PathStep, SubTask
from pipeline.hierarchy.phases import Command, Phase, command

PHASES = "phases@1"
_VERBS: dict[Phase, str] = {
    "explore": "look at",
    "setup": "install",
    "edit": "write",
    "build": "build",
    "run": "run",
    "verify": "check",
}
_EXIT = re.compile(r"\[exit code (\d+)\]\n?")
_ERROR = re.compile(r"^.*(?:error|no such file|not found|cannot|failed|denied).*$", re.IGNORECASE | re.MULTILINE)
_TESTS = re.compile(r"\d+ (?:passed|failed|errors?)\b(?:, \d+ (?:passed|failed|errors?|skipped|warnings?))*")
_LINE = 70
"""Characters of an error or a result that are kept."""
_NAMED = 5
"""Files or packages that are named, the last ones."""


def by_phases(path: Path) -> Annotation:
    """The annotation of a path at a terminal."""
    commands = [command(step.action) for step in path.steps]
    phases = _phases(commands)
    groups = _divided(phases)
    return Annotation(
        annotator=PHASES, subtasks=_named(commands, phases, groups), progress=_progress(path.steps, commands, groups)
    )


def _phases(commands: Sequence[Command]) -> list[Phase]:
    written: set[str] = set()
    found: list[Phase] = []
    for one in commands:
        phase = one.phase
        if phase == "explore" and written & {word for part in one.parts for word in part.words}:
            phase = "verify"
        written.update(one.written)
        found.append(phase)
    return found


def _divided(phases: Sequence[Phase]) -> list[int]:
    """Lengths of the groups, in order."""
    groups: list[tuple[Phase, int]] = []
    for phase in phases:
        if groups and groups[-1][0] == phase and groups[-1][1] < MOST_ACTIONS:
            groups[-1] = (phase, groups[-1][1] + 1)
        else:
            groups.append((phase, 1))
    joined: list[tuple[Phase, int]] = []
    for phase, size in groups:
        if joined and 1 in (size, joined[-1][1]) and size + joined[-1][1] <= MOST_ACTIONS:
            joined[-1] = (phase if joined[-1][1] == 1 else joined[-1][0], size + joined[-1][1])
        else:
            joined.append((phase, size))
    return [size for _, size in joined]


def _named(commands: Sequence[Command], phases: Sequence[Phase], groups: Sequence[int]) -> tuple[SubTask, ...]:
    found, start = [], 0
    for size in groups:
        ranked = sorted(range(start, start + size), key=lambda at: (phases[at] == "explore", -at))
        main = next((at for at in ranked if commands[at].thing), ranked[0])
        thing = commands[main].thing or shortened(commands[main].parts[-1].program if commands[main].parts else "", 40)
        found.append(SubTask(name=f"{_VERBS[phases[main]]} {thing or 'the shell'}", n_actions=size))
        start += size
    return tuple(found)


@dataclass
class _Machine:
    """What is known of the machine, from the commands and what they printed."""

    folder: str = ""
    written: dict[str, None] = field(default_factory=dict)
    installed: dict[str, None] = field(default_factory=dict)

    def take(self, one: Command, failed: bool) -> None:
        for part in one.parts:
            if part.program == "cd" and part.words and not failed:
                self.folder = part.words[0]
            if part.phase == "setup" and not failed and "install" in part.words:
                self.installed |= dict.fromkeys(w for w in part.words if not w.startswith("-") and w != "install")
            if part.phase == "edit" and part.program not in ("rm", "rmdir") and part.thing and not failed:
                self.written[part.thing] = None
        self.written |= dict.fromkeys(one.written)


def _progress(steps: Sequence[PathStep], commands: Sequence[Command], groups: Sequence[int]) -> tuple[str, ...]:
    machine, told, start = _Machine(), [], 0
    for size in groups:
        done: dict[str, None] = {}
        for number in range(start, start + size):
            step, one = steps[number], commands[number]
            code = _EXIT.match(step.result)
            failed = code is not None and code[1] != "0"
            machine.take(one, failed)
            if not failed:
                done[_brief(one)] = None
            told.append(_summary(machine, list(done), step, code[1] if code else ""))
        start += size
    return tuple(told)


def _brief(one: Command) -> str:
    main = one.main
    return f"{main.program} {one.thing}".strip() if main else "nothing"


def _summary(machine: _Machine, done: Sequence[str], step: PathStep, code: str) -> str:
    output = _EXIT.sub("", step.result, count=1)
    parts = [f"in {machine.folder}"] if machine.folder else []
    if machine.written:
        parts.append(f"written: {', '.join(list(machine.written)[-_NAMED:])}")
    if machine.installed:
        parts.append(f"installed: {', '.join(list(machine.installed)[-_NAMED:])}")
    if done:
        parts.append(f"done: {', '.join(done)}")
    if code:
        parts.append(f"exit code {code}")
    if tests := _TESTS.search(output):
        parts.append(f"tests: {tests[0]}")
    elif code not in ("", "0") and (errors := _ERROR.findall(output)):
        parts.append(f"error: {shortened(errors[-1], _LINE)}")
    elif output.strip():
        parts.append(f"printed: {shortened(output, _LINE)}")
    return "; ".join(parts) or "nothing yet"
