"""Quality scores of admitted instances."""

import dagster as dg

from assets.checks import STAGE, stage_results
from assets.columns_shown import columns_of
from assets.instances import instances
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.pools import MODEL_SERVER
from assets.rating_figures import rating_figures
from assets.resources import RetryResource, WorkshopResource
from pipeline.batch import together
from pipeline.schemas import to_rows
from pipeline.stages.rating import rate_by_model, rate_by_rules


@operated(
    group="instances",
    kinds={"python", "deltalake"},
    columns=columns_of("ratings"),
    promises=STAGE,
    deps=[instances],
    pool=MODEL_SERVER,
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
        check_results=stage_results(shop, "ratings", together(reports)),
    )
