"""Published attempts as paths, and what rows of data sets say of them besides.

An attempt in a game tells of each action what it was worth. In the terminal an action is rejected when the shell did
not find or could not start its program, and the last action of a verified attempt brings the whole reward.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.errors import ItemRejected
from pipeline.hierarchy.path import Path, PathStep
from pipeline.hierarchy.prompts import shown
from pipeline.schemas import Row
from pipeline.types import CONTEXT, Record

TERMINAL = "terminal"
"""The environment of attempts that are in no game."""
EXPERT = "expert"
"""Source of what carried out the reference solution."""
UNKNOWN_PROGRAM = frozenset({126, 127})
"""Exit codes by which a shell says that it could not start a program, or did not find it."""
COLUMNS = (
    "trajectory_id",
    "instance_id",
    "source",
    "full_name",
    "commit",
    "license",
    "family",
    "difficulty",
    "image_digest",
    "instruction",
    "solution",
    "agent",
    "sampling",
    "steps",
    "stop_reason",
    "verified",
    "split",
    "provenance",
    "interface",
    "details",
    "seed",
)
"""Of a published row, those that are read here and by who makes rows of it."""
_ORACLE = "oracle"


class AttemptFacts(Record):
    """What all rows of one attempt have in common."""

    split: str
    env: str
    task_type: str
    task_id: str
    variation_id: str
    trajectory_id: str
    source: str
    seed: int | None
    verified: bool
    final_score: float
    handed_in: bool
    """The agent said that it was done; games end by themselves."""


def path_of(row: Mapping[str, object]) -> Path:
    """The actions of a published row, each with what was seen before and after it.

    Handing in and an answer that was no action are no steps. An observation of the terminal begins with the exit code
    of the action before it, as the policies read it.
    Raises ItemRejected for an attempt without any action, and for one by keys and a screen, whose keys are no actions.
    """
    if row["interface"] == TERMINAL:
        raise ItemRejected("keys", "it acts by keys and a screen, not by whole commands")
    environment, steps = environment_of(row), _list(row["steps"])
    acted = [(number, step) for number, step in enumerate(steps) if step["action"]]
    if not acted:
        raise ItemRejected("no_actions", "there is no action in it")
    seen = str(steps[0]["observation"] or "")
    found: list[PathStep] = []
    for number, step in acted:
        extra = json.loads(step["extra"] or "{}")
        told = steps[number + 1]["observation"] if number + 1 < len(steps) else extra.get("after")
        result, last = shown(told or "", step["exit_code"]), number == acted[-1][0]
        worth = _of_terminal(step, last and bool(row["verified"]))
        if environment != TERMINAL:
            worth = {name: extra[name] for name in ("reward", "score", "rejected")}
        over = last and row["stop_reason"] == "done"
        found.append(PathStep(observation=seen, action=step["action"], result=result, done=over, **worth))
        seen = result
    return Path(environment=environment, task=str(row["instruction"] or ""), steps=tuple(found))


def facts_of(row: Mapping[str, object], path: Path) -> AttemptFacts:
    """What rows say of a published row, whose path is known."""
    told, verified = provenance_of(row), bool(row["verified"])
    game = path.environment != TERMINAL
    sampling = json.loads(str(row["sampling"] or "{}"))
    return AttemptFacts(
        split=str(row["split"]),
        env=path.environment,
        task_type=str(row["family"]),
        task_id=str(row["instance_id"]),
        variation_id=told["variation"] if game else _variation(row),
        trajectory_id=str(row["trajectory_id"]),
        source=source_of(row),
        seed=row["seed"] if sampling.get("seed") is None else sampling["seed"],
        verified=verified,
        final_score=path.steps[-1].score if game else float(verified),
        handed_in=not game and row["stop_reason"] == "submitted",
    )


def environment_of(row: Mapping[str, object]) -> str:
    """Name of the game, or `terminal` for what was done in an image."""
    return TERMINAL if row["image_digest"] else provenance_of(row)["environment"]


def actions_of(row: Mapping[str, object]) -> list[str]:
    """What was done, in order; handing in is not among it."""
    return [step["action"] for step in _list(row["steps"]) if step["action"]]


def source_of(row: Mapping[str, object]) -> str:
    """`expert`, or the collection that the attempt belongs to; the agent where it belongs to none."""
    if row["agent"] == _ORACLE:
        return EXPERT
    return str(json.loads(str(row["details"] or "{}")).get("source") or row["agent"])


def provenance_of(row: Mapping[str, object]) -> dict[str, str]:
    """Where the task of a row came from."""
    return {pair["key"]: pair["value"] for pair in _list(row["provenance"])}


def path_sha256(path: Path) -> str:
    """Of all that an annotator sees."""
    return hashlib.sha256(path.model_dump_json().encode("utf-8", "surrogatepass")).hexdigest()


def _of_terminal(step: Mapping[str, Any], earned: bool) -> Row:
    rejected = step["exit_code"] in UNKNOWN_PROGRAM
    return {"reward": float(earned), "score": float(earned), "rejected": rejected}


def _variation(row: Mapping[str, object]) -> str:
    """A task that a generator wrote has a seed; one about a repository is told apart by that."""
    return str(row["seed"]) if row["source"] == CONTEXT else f"{row['full_name']}@{row['commit']}"


def _list(value: object) -> Sequence[Mapping[str, Any]]:
    assert value is None or isinstance(value, list)
    return value or []
