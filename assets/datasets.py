"""Published versions of the data set."""

import dagster as dg

from assets.checks import FIT, MANIFEST, READABLE
from assets.columns_shown import columns_shown
from assets.curation import benchmarks, curations
from assets.metadata import stage_bars
from assets.operated import operated
from assets.plots import funnel_plot, rows_plot
from assets.resources import Workshop, WorkshopResource, code_commit
from assets.snapshot_view import query_markdown
from assets.viewer_links import viewer_link
from pipeline.curation_report import decisions_of
from pipeline.funnel import funnel
from pipeline.published_checks import unfit, unreadable
from pipeline.schemas import TERMINAL
from pipeline.snapshots import SnapshotVersion, check, versions
from pipeline.snapshots.pushing import push_version
from pipeline.snapshots.retention import retain
from pipeline.snapshots.tags import NIGHTLY, tag
from pipeline.stages.curating import looked_with
from pipeline.stages.publishing import Publication, publish_kept
from pipeline.token_counts import TokenCounter

NIGHTLY_DAY = "touchstone/nightly"
"""Tag of the nightly runs; its value is the day, YYYY-MM-DD."""


@operated(
    group="datasets",
    kinds={"parquet"},
    columns=columns_shown(TERMINAL),
    promises=[MANIFEST, READABLE, FIT],
    deps=[curations],
    partitioned=False,
)
def terminal_snapshot(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
    """What curation keeps as an immutable Parquet version; nothing is written when it is that of the latest one."""
    shop = workshop.open()
    publication = publication_of(shop)
    version = publish_kept(shop.store(), publication, code_commit=code_commit(), run_id=context.run.run_id)
    stages = [*funnel(shop.store()).stages(), ("kept", len(publication.decisions.kept))]
    metadata: dict[str, dg.MetadataValue] = {"stages": stage_bars(stages), "funnel": funnel_plot(stages)}
    if version is None:
        context.log.warning("no trajectory is verified and kept yet: there is nothing to publish")
        return dg.MaterializeResult(
            metadata=metadata | {"dagster/row_count": dg.MetadataValue.int(0)},
            check_results=[promise.result([]) for promise in (MANIFEST, READABLE, FIT)],
        )
    results = _results(version)
    if all(result.passed for result in results):
        _after(shop, version, context.run.tags.get(NIGHTLY_DAY))
    return dg.MaterializeResult(metadata=metadata | _of(shop, version), check_results=results)


def _results(version: SnapshotVersion) -> list[dg.AssetCheckResult]:
    """Rows are looked at only where the files are those that were published and can be read."""
    faults = check(version.path)
    unread = faults or unreadable(version.path)
    wrong = unread or unfit(version.path)
    return [MANIFEST.result(faults), READABLE.result(unread), FIT.result(wrong)]


def _after(shop: Workshop, version: SnapshotVersion, night: str | None) -> None:
    """Tag the version of a night, remove what is not kept, and send it where the settings say."""
    settings, reference = shop.settings, f"{version.name}@{version.version}"
    if night is not None:
        tag(shop.data, version.name, version.version, f"{NIGHTLY}{night}")
    if settings.retention.keep:
        retain(shop.data, version.name, settings.retention.keep)
    if settings.publish.url is not None:
        push_version(shop.data, reference, settings.publish.url)


def publication_of(shop: Workshop) -> Publication:
    """What would be published now. Raises ConfigurationError."""
    settings, looked = shop.settings, looked_with(benchmarks(shop))
    decisions = decisions_of(shop.store(), settings.dataset, shop.folder, looked)
    tokenizer = settings.dataset.tokenizer
    tokens = TokenCounter(shop.folder / tokenizer) if tokenizer is not None else None
    return Publication(settings.snapshot, decisions, looked, settings.dataset, settings.splits, tokens)


def _of(shop: Workshop, version: SnapshotVersion) -> dict[str, dg.MetadataValue]:
    rows = [(one.version, one.rows) for one in versions(shop.data, version.name)]
    return {
        "rows_by_version": rows_plot(rows),
        "dagster/row_count": dg.MetadataValue.int(version.rows),
        "version": dg.MetadataValue.text(version.version),
        "written": dg.MetadataValue.bool(version.created),
        "path": dg.MetadataValue.path(str(version.path)),
        "sha256": dg.MetadataValue.text(version.sha256),
        "preview": query_markdown(version.path),
        "viewer": viewer_link(shop.data),
    }
