"""Attempts of agents at admitted instances, and the verdicts on them."""

import dagster as dg

from assets.attempting import AttemptsResource
from assets.checks import EARNED, IDLE, STAGE, stage_results
from assets.columns_shown import columns_of
from assets.instances import instances
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.pools import ENGINE
from assets.resources import RetryResource, WorkshopResource
from assets.sampling import sample_all
from assets.selection import built_repositories
from pipeline.row_checks import unearned
from pipeline.schemas import to_rows
from pipeline.stages.generation import selected
from pipeline.stages.verifications import passed_by_doing_nothing, verify_all


@operated(
    group="trajectories",
    kinds={"docker", "deltalake"},
    columns=columns_of("trajectories"),
    promises=STAGE,
    deps=[instances],
    pool=ENGINE,
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
        check_results=stage_results(shop, "trajectories", report),
    )


@operated(
    group="trajectories",
    kinds={"docker", "pytest", "deltalake"},
    columns=columns_of("verifications"),
    promises=[*STAGE, EARNED, IDLE],
    deps=[trajectories],
    pool=ENGINE,
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
            *stage_results(shop, "verifications", report),
            EARNED.result(unearned(shop.store())),
            IDLE.result(passed_by_doing_nothing(shop.store())),
        ],
    )
