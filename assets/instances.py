"""Task instances made from what is in the images."""

import dagster as dg

from assets.checks import complete, completeness
from assets.images import image_builds
from assets.instance_figures import instance_figures
from assets.metadata import stage_metadata
from assets.partitions import day_by_stream, one_run
from assets.resources import RetryResource, WorkshopResource
from assets.selection import built_repositories, rows_of
from pipeline.instance_report import instance_report
from pipeline.stages.decontamination import decontaminate
from pipeline.stages.generation import generate, select


@dg.asset(
    partitions_def=day_by_stream,
    backfill_policy=one_run,
    group_name="instances",
    kinds={"docker", "pytest", "deltalake"},
    deps=[image_builds],
    check_specs=[complete("instances")],
)
def instances(
    context: dg.AssetExecutionContext, workshop: WorkshopResource, retry: RetryResource
) -> dg.MaterializeResult:
    """Tasks with verifiers, each admitted by gates: doing nothing fails, the solution passes, weak solutions fail."""
    shop = workshop.open()
    chosen = built_repositories(shop, context.partition_keys)
    options = retry.options(shop)
    bench = shop.workbench()
    report = generate(
        shop.store(),
        chosen,
        shop.trees,
        shop.backend(),
        shop.settings.instances,
        options,
        build=bench.build,
        push=bench.push,
        model=shop.model(),
    )
    select(shop.store())
    decontaminate(shop.store(), shop.settings.decontamination, shop.folder, options)
    rows = rows_of(shop, "instances", [one.fetched.repository for one in chosen])
    rows.sort(key=lambda row: not row["admitted"])
    columns = ["instance_id", "family", "instruction", "admitted", "reason"]
    metadata = stage_metadata(report, shop.store(), "instances", rows, columns)
    return dg.MaterializeResult(
        metadata={**metadata, **instance_figures(instance_report(shop.store()))},
        check_results=[completeness(report)],
    )
