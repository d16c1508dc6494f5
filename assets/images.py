"""Images of kept repositories."""

import dagster as dg

from assets.checks import complete, completeness
from assets.metadata import stage_metadata
from assets.partitions import day_by_stream, one_run
from assets.repositories import scores
from assets.resources import RetryResource, WorkshopResource
from assets.selection import kept_repositories, rows_of
from pipeline.funnel import funnel
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
    """A Docker image per repository: from its own Dockerfile if that builds, else from a template of its language."""
    shop = workshop.open()
    chosen = kept_repositories(shop, context.partition_keys)
    limits = shop.settings.builds
    report = build(shop.store(), chosen, shop.trees, shop.builder(), shop.toolchain, limits, retry.options(shop))
    rows = rows_of(shop, "image_builds", [one.repository for one in chosen])
    columns = ["repository_id", "strategy", "status", "seconds", "size_bytes", "failure_class", "reason"]
    return dg.MaterializeResult(
        metadata=stage_metadata(report, funnel(shop.store()).stages(), rows, columns),
        check_results=[completeness(report)],
    )
