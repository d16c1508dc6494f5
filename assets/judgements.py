"""What a language model thinks of attempts, for comparison with the verdicts by execution."""

import dagster as dg

from assets.checks import STAGE, stage_results
from assets.columns_shown import columns_of
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.pools import MODEL_SERVER
from assets.resources import RetryResource, WorkshopResource
from assets.rollout_figures import rollout_figures
from assets.selection import built_repositories
from assets.trajectories import verifications
from pipeline.rollout_report import rollout_report
from pipeline.schemas import to_rows
from pipeline.stages.generation import selected
from pipeline.stages.judging import judge_all


@operated(
    group="trajectories",
    kinds={"python", "deltalake"},
    columns=columns_of("judgements"),
    promises=STAGE,
    deps=[verifications],
    pool=MODEL_SERVER,
)
def judgements(
    context: dg.AssetExecutionContext, workshop: WorkshopResource, retry: RetryResource
) -> dg.MaterializeResult:
    """What a model thinks of each judged attempt of a model, where `[rollout] judge` asks; it decides nothing."""
    shop = workshop.open()
    config, store = shop.settings.rollout, shop.store()
    if config.judge and shop.model() is None:
        context.log.warning("[rollout] judge: no model is named in [model], so that none is asked")
    tasks = selected(store, built_repositories(shop, context.partition_keys)) if config.judge else []
    report = judge_all(store, tasks, shop.model() if config.judge else None, retry.options(shop))
    rows = to_rows(store.current("judgements").slice(0, 10))
    columns = ["trajectory_id", "model", "outcome", "reason"]
    figures = rollout_figures(rollout_report(store, config.samples))
    return dg.MaterializeResult(
        metadata={**stage_metadata(report, store, "judgements", rows, columns), **figures},
        check_results=stage_results(shop, "judgements", report),
    )
