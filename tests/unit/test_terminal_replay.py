"""`touchstone show` of a single attempt: what was thought, done and seen, and the verdict per test."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console, Group

from assets.show import explain
from pipeline.tables import Store
from pipeline.types import Step, TaskInstance
from tests.unit.recorded_trials import KINDS, attempt
from tests.unit.test_atif import stored


def shown(store: Store, identifier: str) -> str:
    text = io.StringIO()
    Console(file=text, force_terminal=True, color_system=None, width=160).print(Group(*explain(store, identifier)))
    return text.getvalue()


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("shell", ["Look first.", "$ printf", "exit code 3 · 0.5 s · 3 tokens in 5.0 s", "last line", "hands in"]),
        (
            "terminal",
            [r"keys: 'ls\n' 0.5 s, 'C-c' 3 s", "terminal done, exit code 3", "[told] You say that", "A shell."],
        ),
        ("told", ["[told] [no command]", "I am not sure."]),
        ("summary", ["[summary] So far I listed files.", "1.2500 USD"]),
        ("fixed", ["oracle", "$ cd data", "hands in", "stopped: submitted"]),
        ("nothing", ["noop", "hands in"]),
    ],
)
def test_a_single_attempt_is_replayed(kind: str, parts: list[str], task: TaskInstance, tmp_path: Path) -> None:
    recorded = attempt(kind, task)
    store = Store(tmp_path)
    stored(store, [recorded, attempt(KINDS[KINDS.index(kind) - 1], task)])
    text = shown(store, recorded.trajectory.trajectory_id)
    missing = [
        part for part in [*parts, task.instruction, "verdict: passed", "test_state.py::test_count"] if part not in text
    ]
    assert missing == [], text


def test_what_programs_and_models_wrote_cannot_act_on_the_terminal(task: TaskInstance, tmp_path: Path) -> None:
    recorded = attempt("shell", task)
    store = Store(tmp_path)
    stored(store, [recorded])
    text = shown(store, recorded.trajectory.trajectory_id)
    assert r"\x1b[2J\x1b]0;owned\x07</script>\x9b31m[red]" in text
    assert not set("\x07\x1b\x9b\r") & set(text)


def test_a_long_output_is_cut_in_its_middle(task: TaskInstance, tmp_path: Path) -> None:
    recorded = attempt("fixed", task)
    long = "\n".join(f"line {number}." for number in range(1000))
    steps = (*recorded.trajectory.steps[:1], Step(index=1, observation=long, action=""))
    store = Store(tmp_path)
    stored(store, [recorded._replace(trajectory=recorded.trajectory.model_copy(update={"steps": steps}))])
    text = shown(store, recorded.trajectory.trajectory_id)
    assert "line 14." in text and "[975 lines left out]" in text and "line 990." in text and "line 500." not in text


def test_several_attempts_are_listed_as_before(task: TaskInstance, tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored(store, [attempt(kind, task) for kind in KINDS])
    text = shown(store, task.instance_id)
    assert f"trajectories: {len(KINDS)} rows" in text and "verdict:" not in text
