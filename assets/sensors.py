"""What starts runs besides the clock: a new listing file, a published version."""

import json
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.datasets import terminal_snapshot
from assets.partitions import range_tags, today
from assets.resources import WorkshopResource
from assets.run_tags import SNAPSHOT
from assets.schedules import main_job
from pipeline.sources.listing import look
from pipeline.types import LANGUAGES, content_id

LISTINGS = "touchstone/listings"
"""Tag of a run that listing files started; their names."""


@dg.sensor(job=main_job, minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING)
def new_listings(context: dg.SensorEvaluationContext, workshop: WorkshopResource) -> dg.SensorResult:
    """The main job over today's languages when a file of [sources.listing] is new or changed."""
    shop = workshop.open()
    sources = shop.settings.sources
    if "listing" not in sources.use or sources.listing.file is None:
        remedy = 'put "listing" into `use` of [sources], and a file or a folder into `file` of [sources.listing]'
        return dg.SensorResult(skip_reason=f"no listing is watched; {remedy}")
    known: dict[str, str] = json.loads(context.cursor or "{}")
    found = look(shop.folder / sources.listing.file, sources.listing.language)
    for fault in found.faults.values():
        context.log.warning(fault)
    changed = {name: sha256 for name, sha256 in found.hashes.items() if known.get(name) != sha256}
    # A file that cannot be read for a moment is not new when it can be read again.
    cursor = json.dumps({name: sha256 for name, sha256 in known.items() if name in found.faults} | found.hashes)
    if not changed:
        reason = "; ".join(found.faults.values()) or "no file is new or changed"
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    hashes = sorted(set(changed.values()))
    request = dg.RunRequest(
        run_key=hashes[0] if len(hashes) == 1 else content_id("listings", hashes),
        tags=range_tags(today(), LANGUAGES) | {LISTINGS: ", ".join(changed)},
    )
    return dg.SensorResult(run_requests=[request], cursor=cursor)


Job = dg.JobDefinition | UnresolvedAssetJobDefinition


def snapshot_published(jobs: Sequence[Job]) -> dg.SensorDefinition:
    """The sensor that starts one of these jobs, the one that [training] names, with each new version."""

    @dg.sensor(jobs=jobs, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
    def snapshot_published(context: dg.SensorEvaluationContext, workshop: WorkshopResource) -> dg.SensorResult:
        """The job of [training] when a version was written; its tag touchstone/snapshot names the newest one."""
        job, known = workshop.open().settings.training.job, [one.name for one in jobs]
        if job not in known:
            fault = f"there is no such job as {job!r}" if job else "no job follows a version"
            return dg.SensorResult(skip_reason=f"{fault}; `job` of [training] may name {' or '.join(known)}")
        version, seen = newest_written(context.instance, int(context.cursor or 0))
        if version is None:
            return dg.SensorResult(skip_reason="no version was written", cursor=str(seen))
        request = dg.RunRequest(run_key=f"{job} {version}", job_name=job, tags={SNAPSHOT: version})
        return dg.SensorResult(run_requests=[request], cursor=str(seen))

    return snapshot_published


def newest_written(instance: dg.DagsterInstance, seen: int) -> tuple[str | None, int]:
    """The newest version that was written since an event, and the last event that needs not be looked at again.

    Nights that wrote nothing lie between, so the latest event alone would not do. A version counts when its step ended
    well: the check that it reads back comes after the event.
    """
    wanted = dg.AssetRecordsFilter(asset_key=terminal_snapshot.key, after_storage_id=seen)
    records = instance.fetch_materializations(wanted, limit=1_000, ascending=True).records
    version = None
    for record in records:
        good = _ended_well(instance, record.run_id)
        if good is None and record is records[-1]:
            break  # its step may still be at work
        seen = record.storage_id
        metadata = record.asset_materialization.metadata if record.asset_materialization else {}
        if good and "written" in metadata and metadata["written"].value:
            version = "@".join(Path(str(metadata["path"].value)).parts[-2:])
    return version, seen


def _ended_well(instance: dg.DagsterInstance, run_id: str) -> bool | None:
    """Whether the step that publishes succeeded in a run; None when it has not ended."""
    ends = {dg.DagsterEventType.STEP_SUCCESS, dg.DagsterEventType.STEP_FAILURE}
    for entry in instance.all_logs(run_id, of_type=ends):
        event = entry.dagster_event
        if event is not None and event.step_key == terminal_snapshot.op.name:
            return event.event_type is dg.DagsterEventType.STEP_SUCCESS
    return None
