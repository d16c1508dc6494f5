"""What every export of trajectories starts from: recorded attempts, each with its task and the verdict on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from pipeline.joined_rows import named
from pipeline.rows import instance_of, trajectory_of
from pipeline.schemas import Row, to_rows
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.types import Record, TaskInstance, Trajectory, VerificationResult


class AttemptsExport(Record):
    """What was written of recorded attempts."""

    format: str
    format_version: str
    folder: str
    trajectories: tuple[str, ...]
    """Ids, each the name of its file or folder, sorted."""


class RecordedAttempt(NamedTuple):
    """One attempt."""

    instance: TaskInstance
    trajectory: Trajectory
    verdict: VerificationResult | None
    """None when it was not judged, or our machinery failed while it was."""
    recorded_at: datetime
    """When the attempt was written down."""


def recorded_attempts(store: Store, beginning: str = "") -> Iterator[RecordedAttempt]:
    """The attempts whose trajectory ids begin so, passed and failed, one in memory at a time, in no particular order.

    One that broke off is none. Raises RowMissing.
    """
    stored = StoredRows(store, "trajectories", ["trajectory_id"])
    ids = stored.light.column("trajectory_id").to_pylist()
    numbers = [number for number, one in enumerate(ids) if one is not None and one.startswith(beginning)]
    if not numbers:
        return
    instances: Mapping[object, Row] = {row["instance_id"]: row for row in to_rows(store.current("instances"))}
    verdicts = {row["trajectory_id"]: row for row in to_rows(store.current("verifications"))}
    for number in numbers:
        row = stored.row(number)
        recorded_at = row["recorded_at"]
        assert isinstance(recorded_at, datetime)
        instance = instance_of(named(instances, row["instance_id"], "instances"))
        yield RecordedAttempt(instance, trajectory_of(row), _verdict(verdicts.get(ids[number])), recorded_at)


def _verdict(row: Row | None) -> VerificationResult | None:
    if row is None or row["outcome"] is None:
        return None
    found = {name: row[name] for name in VerificationResult.model_fields if row[name] is not None}
    return VerificationResult.model_validate({"tests": (), "seconds": 0.0} | found)
