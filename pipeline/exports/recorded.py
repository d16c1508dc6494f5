"""What every export of trajectories starts from: recorded attempts, each with its task and the verdict on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow.compute as pc

from pipeline.joined_rows import RowMissing
from pipeline.rows import instance_of, trajectory_of
from pipeline.schemas import Row, to_rows
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
    """The attempts whose trajectory ids begin so, passed and failed, sorted by id. One that broke off is none.

    Raises RowMissing.
    """
    table = store.current("trajectories")
    table = table.filter(pc.starts_with(table["trajectory_id"], pattern=beginning))
    if table.num_rows == 0:
        return
    ids = table["trajectory_id"].to_pylist()
    instances = {row["instance_id"]: row for row in to_rows(store.current("instances"))}
    verdicts = {row["trajectory_id"]: row for row in to_rows(store.current("verifications"))}
    # One row at a time becomes Python objects: token ids make rows large.
    for at in sorted(range(len(ids)), key=ids.__getitem__):
        row = to_rows(table.slice(at, 1))[0]
        if row["steps"] is None:
            continue
        recorded_at = row["recorded_at"]
        assert isinstance(recorded_at, datetime)
        instance = _instance(instances, row["instance_id"])
        yield RecordedAttempt(instance, trajectory_of(row), _verdict(verdicts.get(ids[at])), recorded_at)


def _instance(rows: Mapping[object, Row], instance_id: object) -> TaskInstance:
    if instance_id not in rows:
        raise RowMissing(
            f"the table instances has no row {instance_id}, which an attempt names; put tables/instances of the data "
            "folder back as it was, or start over with another data folder (--data)"
        )
    return instance_of(rows[instance_id])


def _verdict(row: Row | None) -> VerificationResult | None:
    if row is None or row["outcome"] is None:
        return None
    found = {name: row[name] for name in VerificationResult.model_fields if row[name] is not None}
    return VerificationResult.model_validate({"tests": (), "seconds": 0.0} | found)
