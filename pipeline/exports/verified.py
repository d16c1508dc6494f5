"""A row of a published version as the attempt that it is of, and as the task that the attempt was made at.

A version holds what readers need, not all that the working tables do: what it has no column for is as usual here, which
for the first versions are the limits of a sandbox and the seed of a generator, and times are that of publication.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import PurePosixPath
from typing import TypeVar

from pydantic import ValidationError

from pipeline.columns import TERMINAL
from pipeline.exports.account import RowRefused
from pipeline.exports.published import PublishedRow
from pipeline.exports.recorded import RecordedAttempt
from pipeline.exports.tasks import ExportedTask
from pipeline.rows import instance_of, trajectory_of
from pipeline.schemas import Row
from pipeline.types import VerificationResult
from sandbox.types import Limits

COLUMNS = tuple(TERMINAL)

_USUAL: Row = {
    "verifier_kind": "pytest",
    "seed": 0,
    "state_scope": "full",
    "context_ids": (),
    "backend": None,
    "license": None,
    "flake_rate": None,
    "model": None,
    "interface": None,
    "details": None,
    "messages": None,
    "integrity": (),
    "tests": (),
    "state_reference": "",
    "changes": None,
    **{f"limits_{name}": value for name, value in Limits().model_dump().items()},
}
"""For what the version has no column for, or a row nothing in it."""
_LONGEST_NAME = 255

T = TypeVar("T")


def attempt_of(found: PublishedRow, published_at: datetime) -> RecordedAttempt:
    """Raises RowRefused for a row that is no attempt, or another one than its id says."""
    row = _whole(found)
    attempt = refusing("no_attempt", lambda: _attempt(row, published_at))
    if attempt.trajectory.trajectory_id != found.trajectory_id:
        raise RowRefused("attempt_changed", "it is not the attempt that its id was made of")
    return attempt


def task_of(found: PublishedRow) -> ExportedTask:
    """Raises RowRefused for a row that has no task, another one than its id says, or one with files of unsafe names."""
    row = _whole(found)
    task = refusing("no_task", lambda: _task(row))
    if (task.instance.instance_id, task.instance.verifier.sha256) != (row["instance_id"], row["verifier_sha256"]):
        raise RowRefused("task_changed", "instruction, solution or verifier are not those that the id was made of")
    for file in task.instance.verifier.files:
        parts = PurePosixPath(file.path).parts
        if not parts or ".." in parts or parts[0] == "/" or "\0" in file.path:
            raise RowRefused("unsafe_path", f"a file of the verifier would be written to {file.path!a}")
        if max(len(part.encode()) for part in parts) > _LONGEST_NAME:
            raise RowRefused("unsafe_path", "a file of the verifier has a longer name than file systems take")
    return task


def _attempt(row: Row, published_at: datetime) -> RecordedAttempt:
    trajectory = trajectory_of(row)
    told = {"trajectory_id": trajectory.trajectory_id, "seconds": 0.0, "log_tail": ""}
    judged = {name: row[name] for name in ("outcome", "tests", "integrity", "backend")}
    return RecordedAttempt(instance_of(row), trajectory, VerificationResult.model_validate(told | judged), published_at)


def _task(row: Row) -> ExportedTask:
    return ExportedTask.model_validate(
        {
            "instance": instance_of(row),
            "repository": row["full_name"],
            "source": row["source"],
            "commit": row["commit"],
            "license": row["license"],
            "evidence": {},
            "flake_rate": row["flake_rate"],
        }
    )


def _whole(found: PublishedRow) -> Row:
    if found.row is None:
        raise RowRefused("not_utf8", "a text of it is no valid UTF-8")
    return _USUAL | {name: value for name, value in found.row.items() if value is not None}


def refusing(rule: str, read: Callable[[], T]) -> T:
    """What is read out of a row, which may hold anything. Raises RowRefused where that cannot be read."""
    try:
        return read()
    except ValidationError as error:
        first = error.errors()[0]
        raise RowRefused(rule, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except KeyError as error:
        raise RowRefused(rule, f"it has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError, AssertionError) as error:
        raise RowRefused(rule, str(error) or "a part of it has another form") from error
