"""Attempts of agents at admitted instances, and the verdicts on them."""

import dagster as dg

from assets.attempting import AttemptsResource
from assets.checks import complete, completeness, no_faults
from assets.instances import instances
from assets.metadata import stage_metadata
from assets.partitions import day_by_stream, one_run
from assets.resources import RetryResource, WorkshopResource
from assets.sampling import sample_all
from assets.selection import built_repositories
from pipeline.schemas import to_rows
from pipeline.stages.generation import selected
from pipeline.stages.verifications import passed_by_doing_nothing, verify_all


@dg.asset(
    partitions_def=day_by_stream,
    backfill_policy=one_run,
    group_name="trajectories",
    kinds={"docker", "deltalake"},
    deps=[instances],
    check_specs=[complete("trajectories")],
)
def trajectories(
    context: dg.AssetExecutionContext, workshop: WorkshopResource, retry: RetryResource, attempts: AttemptsResource
) -> dg.MaterializeResult:
    """Each agent's attempt at each admitted instance, step by step, with its frozen final state."""
    shop = workshop.open()
    tasks = selected(shop.store(), built_repositories(shop, context.partition_keys))
    report = sample_all(shop, tasks, attempts.config(shop), attempts.model(shop), retry.options(shop))
    shown = ["trajectory_id", "agent", "n_turns", "stop_reason", "reason"]
    rows = to_rows(shop.store().current("trajectories", shown).slice(0, 10))
    return dg.MaterializeResult(
        metadata=stage_metadata(report, shop.store(), "trajectories", rows, shown),
        check_results=[completeness(report)],
    )


@dg.asset(
    partitions_def=day_by_stream,
    backfill_policy=one_run,
    group_name="trajectories",
    kinds={"docker", "pytest", "deltalake"},
    deps=[trajectories],
    check_specs=[
        complete("verifications"),
        dg.AssetCheckSpec("doing_nothing_never_passes", asset="verifications", blocking=True),
    ],
)
def verifications(
    context: dg.AssetExecutionContext, workshop: WorkshopResource, retry: RetryResource
) -> dg.MaterializeResult:
    """The verdict on each final state: the verifier run in a fresh sandbox over the frozen file system."""
    shop = workshop.open()
    tasks = selected(shop.store(), built_repositories(shop, context.partition_keys))
    timeout_s = shop.settings.rollout.command_timeout_s
    report = verify_all(shop.store(), tasks, shop.backend(), retry.options(shop), command_timeout_s=timeout_s)
    shown = ["trajectory_id", "outcome", "seconds", "reason"]
    rows = to_rows(shop.store().current("verifications", shown).slice(0, 10))
    return dg.MaterializeResult(
        metadata=stage_metadata(report, shop.store(), "verifications", rows, shown),
        check_results=[
            completeness(report),
            no_faults("doing_nothing_never_passes", passed_by_doing_nothing(shop.store())),
        ],
    )
