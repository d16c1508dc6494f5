"""Published versions of the data set."""

import dagster as dg

from assets.checks import no_faults
from assets.plots import funnel_plot
from assets.resources import WorkshopResource, code_commit
from assets.snapshot_view import query_markdown
from assets.trajectories import verifications
from pipeline.funnel import funnel
from pipeline.snapshots import check
from pipeline.stages.publishing import publish_verified


@dg.asset(
    group_name="datasets",
    kinds={"parquet"},
    deps=[verifications],
    check_specs=[dg.AssetCheckSpec("files_match_manifest", asset="terminal_snapshot", blocking=True)],
)
def terminal_snapshot(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
    """All verified rows as an immutable Parquet version; nothing is written when they are those of the latest one."""
    shop = workshop.open()
    stages = funnel(shop.store()).stages()
    version = publish_verified(shop.store(), shop.settings.snapshot, code_commit=code_commit(), run_id=context.run_id)
    if version is None:
        context.log.warning("no trajectory is verified yet: there is nothing to publish")
        metadata: dict[str, dg.MetadataValue] = {"dagster/row_count": dg.MetadataValue.int(0)}
        return dg.MaterializeResult(
            metadata=metadata | {"funnel": funnel_plot(stages)}, check_results=[no_faults("files_match_manifest", [])]
        )
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": dg.MetadataValue.int(version.rows),
            "version": dg.MetadataValue.text(version.version),
            "written": dg.MetadataValue.bool(version.created),
            "path": dg.MetadataValue.path(str(version.path)),
            "sha256": dg.MetadataValue.text(version.sha256),
            "preview": query_markdown(version.path),
            "funnel": funnel_plot(stages),
        },
        check_results=[no_faults("files_match_manifest", check(version.path))],
    )
