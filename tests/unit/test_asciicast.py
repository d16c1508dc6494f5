"""Recordings: what was shown, at capped times, and nothing that acts on the terminal that plays them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipeline.exports.asciicast import MAX_IDLE_S, cast, export_casts
from pipeline.exports.recorded import RecordedAttempt
from pipeline.types import TaskInstance
from tests.unit.recorded_trials import KINDS, attempt


def played(recorded: RecordedAttempt) -> tuple[dict[str, Any], list[tuple[float, str, str]]]:
    header, *events = map(json.loads, cast(recorded).splitlines())
    return header, [(moment, kind, text) for moment, kind, text in events]


def shown(recorded: RecordedAttempt) -> str:
    return "".join(text for _, kind, text in played(recorded)[1] if kind == "o")


def slower(recorded: RecordedAttempt, seconds: float) -> RecordedAttempt:
    steps = tuple(step.model_copy(update={"seconds": seconds}) for step in recorded.trajectory.steps)
    return recorded._replace(trajectory=recorded.trajectory.model_copy(update={"steps": steps}))


@pytest.mark.parametrize("kind", KINDS)
def test_the_only_sequences_are_those_that_wipe_the_screen(kind: str, task: TaskInstance) -> None:
    text = shown(attempt(kind, task)).replace("\x1b[2J\x1b[H", "")
    assert re.findall(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)", text) == []


def test_a_shell_shows_its_commands_and_what_they_wrote(task: TaskInstance) -> None:
    recorded = attempt("shell", task)
    typed = "$ printf '\\033' > a\r\n> ls\r\n"
    assert shown(recorded) == f"{typed}overript>[red]\ufffd\r\nlast line\r\n{typed}more\r\n$ "
    header, events = played(recorded)
    assert (header["version"], header["title"].endswith("bash with scripted, passed")) == (2, True)
    assert [text for _, kind, text in events if kind == "m"] == ["step 0", "step 1"]


def test_a_command_cannot_hide_its_control_characters(task: TaskInstance) -> None:
    recorded = attempt("shell", task)
    step = recorded.trajectory.steps[0].model_copy(update={"action": "rm -r x\rls \x1b[2K\x9b"})
    hidden = recorded._replace(trajectory=recorded.trajectory.model_copy(update={"steps": (step,)}))
    assert shown(hidden) == "$ rm -r x\\rls \\x1b[2K\\x9b\r\n$ "


def test_a_terminal_shows_its_screens_and_what_came_between_them(task: TaskInstance) -> None:
    text = shown(attempt("terminal", task))
    assert text == "\x1b[2J\x1b[H$ ls\r\noverript>[red]\ufffd\r\n$ \x1b[2J\x1b[Hx "
    header, _ = played(attempt("terminal", task))
    assert (header["width"], header["height"]) == (160, 40)


def test_what_is_told_in_place_of_an_output_is_not_shown(task: TaskInstance) -> None:
    assert "no command" not in shown(attempt("told", task))


def test_no_wait_is_longer_than_the_cap_and_shorter_ones_are_true(task: TaskInstance) -> None:
    moments = [moment for moment, _, _ in played(slower(attempt("fixed", task), 0.75))[1]]
    assert moments == [0.0, 0.0, 0.75, 0.75, 0.75, 1.5, 1.5]
    slow = [moment for moment, _, _ in played(slower(attempt("shell", task), 600.0))[1]]
    assert max(later - earlier for earlier, later in pairwise(slow)) == MAX_IDLE_S


def test_a_file_is_written_for_every_attempt(task: TaskInstance, tmp_path: Path) -> None:
    recorded = [attempt(kind, task) for kind in KINDS]
    made = export_casts(recorded, tmp_path / "out")
    assert made.trajectories == tuple(sorted(one.trajectory.trajectory_id for one in recorded))
    assert {path.stem for path in (tmp_path / "out").glob("*.cast")} == set(made.trajectories)
