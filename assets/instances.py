"""Task instances made from what is in the images."""

import dagster as dg

from assets.checks import PROVEN, STAGE, UNTOLD, stage_results
from assets.columns_shown import columns_of
from assets.images import image_builds
from assets.instance_figures import instance_figures
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.pools import ENGINE
from assets.resources import RetryResource, WorkshopResource
from assets.selection import built_repositories, rows_of
from pipeline.instance_report import instance_report
from pipeline.row_checks import told_solutions, unproven
from pipeline.stages.decontamination import decontaminate
from pipeline.stages.generation import generate, select
from pipeline.tables import Store


@operated(
    group="instances",
    kinds={"docker", "pytest", "deltalake"},
    columns=columns_of("instances"),
    promises=[*STAGE, PROVEN, UNTOLD],
    deps=[image_builds],
    pool=ENGINE,
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
        check_results=[*stage_results(shop, "instances", report), *_admission_results(shop.store())],
    )


def _admission_results(store: Store) -> list[dg.AssetCheckResult]:
    return [PROVEN.result(unproven(store)), UNTOLD.result(told_solutions(store))]
