"""The job that removes what nobody needs any more: of the stages of `touchstone gc`, and of Dagster's own history.

A job of its own and not the end of the main job: a run that failed, perhaps of a full disk, is followed by one as well.
What a run has in hand is safe: each stage leaves alone what is new, locked, or named by a row.
"""

import datetime

import dagster as dg

from assets.resources import Workshop, WorkshopResource
from pipeline.disk_use import Disk, StageUse
from sandbox.engine import address


@dg.op(out=dg.Out(dg.Nothing))
def clean(context: dg.OpExecutionContext, workshop: WorkshopResource) -> dg.Output[None]:
    """What [cleaning] names; images only in an engine of our own. The metadata says what went."""
    shop = workshop.open()
    uses = clean_stages(shop)
    oldest = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=shop.settings.cleaning.days)
    outputs, runs = clean_history(context.instance, oldest)
    return dg.Output(
        None,
        metadata={
            "freed_mb": dg.MetadataValue.float(round(sum(use.freed or 0 for use in uses) / 1e6, 1)),
            "stages": _stages_table(uses),
            "outputs_of_runs": outputs,
            "runs_without_results": runs,
        },
    )


@dg.job(name="cleaning", executor_def=dg.in_process_executor)
def cleaning_job() -> None:
    """Removes images, trees and states that no row needs, and old outputs and runs of Dagster."""
    clean()


def clean_stages(shop: Workshop) -> list[StageUse]:
    """Free the stages of the settings; one that cannot be freed says why."""
    config, engine = shop.settings.cleaning, address(shop.data)
    ours = engine is not None and engine.owned
    stages = [stage for stage in config.stages if stage != "images" or ours]
    if not stages:
        return []
    return Disk(shop.store(), shop.room, shop.backend, free_mb=config.free_mb).free(stages, goes_on=True)


def clean_history(instance: dg.DagsterInstance, before: datetime.datetime) -> tuple[int, int]:
    """Of runs that ended and are older: the outputs of their steps, and the runs that materialized nothing.

    Any other run stays, since the materializations of its partitions would go with it. Returns how many lost their
    outputs, and how many went.
    """
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    records = instance.get_run_records(dg.RunsFilter(statuses=ended, created_before=before))
    gone = 0
    for run in (record.dagster_run for record in records):
        instance.compute_log_manager.delete_logs(prefix=[run.run_id])
        results = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION, limit=1)
        if not results.records:
            instance.delete_run(run.run_id)
            gone += 1
    return len(records), gone


def _stages_table(uses: list[StageUse]) -> dg.MetadataValue:
    lines = ["| stage | holds MB | freed MB | note |", "| --- | --- | --- | --- |"]
    for use in uses:
        held = "-" if use.held is None else f"{use.held / 1e6:.1f}"
        lines.append(f"| {use.stage} | {held} | {(use.freed or 0) / 1e6:.1f} | {use.note} |")
    return dg.MetadataValue.md("\n".join(lines))
