"""Images of kept repositories."""

import dagster as dg

from assets.checks import STAGE, stage_results
from assets.columns_shown import columns_of
from assets.image_figures import image_figures
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.pools import ENGINE
from assets.repositories import scores
from assets.resources import RetryResource, WorkshopResource
from assets.selection import kept_repositories, rows_of
from pipeline.image_report import image_report
from pipeline.stages.building import build


@operated(
    group="images",
    kinds={"docker", "deltalake"},
    columns=columns_of("image_builds"),
    promises=STAGE,
    deps=[scores],
    pool=ENGINE,
)
def image_builds(
    context: dg.AssetExecutionContext, workshop: WorkshopResource, retry: RetryResource
) -> dg.MaterializeResult:
    """A Docker image per repository in which its own program runs: from its own Dockerfile, a template, or repaired."""
    shop = workshop.open()
    chosen = kept_repositories(shop, context.partition_keys)
    report = build(shop.store(), chosen, shop.trees, shop.workbench(), retry.options(shop))
    rows = rows_of(shop, "image_builds", [one.repository for one in chosen])
    columns = ["repository_id", "strategy", "status", "smoke_ok", "tests_ok", "seconds", "failure_class", "reason"]
    metadata = stage_metadata(report, shop.store(), "image_builds", rows, columns)
    return dg.MaterializeResult(
        metadata={**metadata, **image_figures(image_report(shop.store()))},
        check_results=stage_results(shop, "image_builds", report),
    )
