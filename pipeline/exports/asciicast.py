"""One recorded attempt as an asciicast (v2), to be played in a terminal or on a page.

Small: only what was shown, at the times that models and commands took, of which no wait is longer than MAX_IDLE_S.
A step is a marker, to jump to. What programs wrote cannot act on the terminal that plays it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.exports.atif import calls_of
from pipeline.exports.folders import new_folder, prove
from pipeline.exports.recorded import AttemptsExport, RecordedAttempt
from pipeline.exports.tasks import NothingToExport
from pipeline.schemas import clean_text
from pipeline.terminal_environment import COLUMNS, ROWS
from pipeline.types import Step
from sandbox.escapes import clean

VERSION = 2
MAX_IDLE_S = 2.0

_SHELL_ROWS, _SHELL_COLUMNS = 30, 120
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HEADLINE = re.compile(r"(Current Terminal Screen|New Terminal Output):\n")
"""What stands above everything that an agent sees of a terminal."""
_WIPE = "\x1b[2J\x1b[H"


def export_casts(attempts: Iterable[RecordedAttempt], folder: Path) -> AttemptsExport:
    """Write a file for each attempt into a folder, all or nothing.

    Raises NothingToExport without an attempt, ConfigurationError when `folder` is there and not empty or cannot be
    written, ExportDamaged.
    """
    written = {}
    with new_folder(folder) as part:
        for attempt in attempts:
            identity = attempt.trajectory.trajectory_id
            content = cast(attempt).encode()
            (part / f"{identity}.cast").write_bytes(content)
            written[identity] = len(content)
        if not written:
            raise NothingToExport("no attempt is recorded under that id; `touchstone run` makes some")
        files = sorted(part.iterdir())
        prove(folder.name, ((file.stem, file.stat().st_size) for file in files), dict(sorted(written.items())))
    return AttemptsExport(
        format="asciicast", format_version=str(VERSION), folder=str(folder), trajectories=tuple(sorted(written))
    )


def cast(attempt: RecordedAttempt) -> str:
    """The text of the file: a header, then one event a line."""
    trajectory = attempt.trajectory
    terminal = trajectory.interface == "terminal"
    who = " with ".join(part for part in (trajectory.agent, trajectory.model) if part)
    outcome = "not judged" if attempt.verdict is None else attempt.verdict.outcome
    header = {
        "version": VERSION,
        "width": COLUMNS if terminal else _SHELL_COLUMNS,
        "height": ROWS if terminal else _SHELL_ROWS,
        "idle_time_limit": MAX_IDLE_S,
        "title": f"{trajectory.trajectory_id}: {who}, {outcome}",
    }
    events = _of_terminal(trajectory.steps) if terminal else _of_shell(trajectory.steps)
    lines = [header, *([round(moment, 3), kind, text] for moment, kind, text in events)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


_Event = tuple[float, str, str]


def _of_shell(steps: tuple[Step, ...]) -> Iterator[_Event]:
    """Each command behind a prompt, then what it wrote."""
    moment = 0.0
    for number, step in enumerate(steps):
        moment += _thinking(step)
        if not step.action:
            continue
        yield moment, "m", f"step {step.index}"
        yield moment, "o", _lines(f"$ {_harmless(step.action)}".replace("\n", "\n> ") + "\n")
        moment += min(step.seconds, MAX_IDLE_S)
        if number + 1 < len(steps) and (output := clean(clean_text(steps[number + 1].observation))):
            yield moment, "o", _lines(output if output.endswith("\n") else f"{output}\n")
    yield moment, "o", "$ "


def _of_terminal(steps: tuple[Step, ...]) -> Iterator[_Event]:
    """The first screen, then what each batch of keys brought: more output, or another screen."""
    moment = 0.0
    if steps:
        yield moment, "o", _shown(steps[0].observation)
    for number, step in enumerate(steps):
        moment += _thinking(step)
        if not step.action:
            continue
        yield moment, "m", f"step {step.index}"
        moment += min(step.seconds, MAX_IDLE_S)
        if number + 1 < len(steps):
            yield moment, "o", _shown(steps[number + 1].observation)


def _shown(observation: str) -> str:
    headline = _HEADLINE.match(observation)
    text = _lines(clean(clean_text(observation[headline.end() if headline else 0 :])))
    if headline and headline[1].startswith("New"):
        return text
    # The rows of a screen come without the blank that stands between a prompt and what is typed next.
    return f"{_WIPE}{text} "


def _thinking(step: Step) -> float:
    return min(sum(call.seconds for call in calls_of(step)), MAX_IDLE_S)


def _harmless(command: str) -> str:
    """A command with its control characters written out: dropping them would show another command."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], clean_text(command))


def _lines(text: str) -> str:
    """As a terminal gets it, which a line feed alone moves down only."""
    return text.replace("\n", "\r\n")
