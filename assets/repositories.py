"""Repositories of a crawl day: listed, fetched, scored."""

import dagster as dg
from pydantic import Field

from assets.checks import STAGE, stage_results
from assets.columns_shown import columns_of
from assets.metadata import stage_metadata
from assets.operated import operated
from assets.partitions import today
from assets.pools import GITHUB_API, MODEL_SERVER
from assets.resources import RetryResource, WorkshopResource
from assets.selection import listed, rows_of
from pipeline.stages.fetching import fetch
from pipeline.stages.scoring import fetched, score


class ListingConfig(dg.Config):
    """How much of what the sources name is taken."""

    limit: int = Field(default=0, ge=0)
    """Repositories of each stream and day, the first ones; 0 for all. A later run without it adds the others."""


@operated(
    group="repositories",
    kinds={"docker", "deltalake"},
    columns=columns_of("repositories"),
    promises=STAGE,
    pool=GITHUB_API,
)
def repositories(
    context: dg.AssetExecutionContext, config: ListingConfig, workshop: WorkshopResource, retry: RetryResource
) -> dg.MaterializeResult:
    """Source trees of the repositories that the sources list for the day, with their licence."""
    shop = workshop.open()
    chosen = listed(shop, context.partition_keys, today=today(), limit=config.limit or None)
    report = fetch(shop.store(), chosen, shop.sources(), shop.trees, retry.options(shop))
    rows = rows_of(shop, "repositories", chosen)
    columns = ["full_name", "commit", "language", "license", "n_files", "failure_class", "reason"]
    return dg.MaterializeResult(
        metadata=stage_metadata(report, shop.store(), "repositories", rows, columns),
        check_results=stage_results(shop, "repositories", report),
    )


@operated(
    group="repositories",
    kinds={"python", "deltalake"},
    columns=columns_of("scores"),
    promises=STAGE,
    deps=[repositories],
    pool=MODEL_SERVER,
)
def scores(context: dg.AssetExecutionContext, workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """How likely each repository is to give a working image; those under the threshold go no further."""
    shop = workshop.open()
    chosen = listed(shop, context.partition_keys)
    report = score(shop.store(), fetched(shop.store(), chosen), shop.trees, shop.scorer(), retry.options(shop))
    rows = rows_of(shop, "scores", chosen)
    return dg.MaterializeResult(
        metadata=stage_metadata(
            report, shop.store(), "scores", rows, ["repository_id", "scorer", "score", "kept", "reason"]
        ),
        check_results=stage_results(shop, "scores", report),
    )
