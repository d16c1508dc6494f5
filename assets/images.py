"""Images of kept repositories."""

import dagster as dg

from assets.checks import complete, completeness
from assets.image_figures import image_figures
from assets.metadata import stage_metadata
from assets.partitions import day_by_stream, one_run
from assets.repositories import scores
from assets.resources import RetryResource, WorkshopResource
from assets.selection import kept_repositories, rows_of
from pipeline.image_report import image_report
from pipeline.stages.building import build


@dg.asset(
    partitions_def=day_by_stream,
    backfill_policy=one_run,
    group_name="images",
    kinds={"docker", "deltalake"},
    deps=[scores],
    check_specs=[complete("image_builds")],
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
        check_results=[completeness(report)],
    )
