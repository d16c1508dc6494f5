"""Quality scores of admitted instances."""

import dagster as dg

from assets.checks import complete, completeness
from assets.instances import instances
from assets.metadata import stage_metadata
from assets.partitions import day_by_stream, one_run
from assets.rating_figures import rating_figures
from assets.resources import RetryResource, WorkshopResource
from pipeline.batch import together
from pipeline.schemas import to_rows
from pipeline.stages.rating import rate_by_model, rate_by_rules


@dg.asset(
    partitions_def=day_by_stream,
    backfill_policy=one_run,
    group_name="instances",
    kinds={"python", "deltalake"},
    deps=[instances],
    check_specs=[complete("ratings")],
)
def ratings(workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """Scores of each admitted task by rules, and of a sample by a model; people's come by `touchstone quality read`."""
    shop = workshop.open()
    quality, model = shop.settings.quality, shop.model()
    reports = [rate_by_rules(shop.store(), retry.options(shop))]
    if quality.model_per_bin and model is not None:
        reports.append(rate_by_model(shop.store(), model, quality, retry.options(shop)))
    rows = to_rows(shop.store().current("ratings").slice(0, 10))
    columns = ["instance_id", "rater", "task_soundness", "evaluability", "information_sufficiency"]
    return dg.MaterializeResult(
        metadata={
            **stage_metadata(together(reports), shop.store(), "ratings", rows, columns),
            **rating_figures(shop.store()),
        },
        check_results=[completeness(together(reports))],
    )
