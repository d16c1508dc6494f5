"""From the partitions of a run to the items of a stage, and to the rows that its metadata previews."""

from collections.abc import Sequence

from assets.partitions import split
from assets.resources import Workshop
from pipeline.schemas import Row, to_rows
from pipeline.stages.building import Built, built
from pipeline.stages.listing import list_day
from pipeline.stages.scoring import Fetched, fetched, kept
from pipeline.types import Repository


def listed(
    shop: Workshop, partition_keys: Sequence[str], *, today: str | None = None, limit: int | None = None
) -> list[Repository]:
    """Repositories of the partitions, each once; the sources are asked only for the day that is `today`, if given.

    `limit` is that of `list_day`.
    """
    found: dict[str, Repository] = {}
    for day, streams in split(list(partition_keys)).items():
        for repository in list_day(shop.store(), shop.sources(), day, streams, today=today, limit=limit):
            found.setdefault(repository.repository_id, repository)
    return list(found.values())


def kept_repositories(shop: Workshop, partition_keys: Sequence[str]) -> list[Fetched]:
    """Those whose score reached the threshold."""
    return kept(shop.store(), fetched(shop.store(), listed(shop, partition_keys)), shop.scorer())


def built_repositories(shop: Workshop, partition_keys: Sequence[str]) -> list[Built]:
    """Those that have an image."""
    return built(shop.store(), kept_repositories(shop, partition_keys))


def rows_of(shop: Workshop, table: str, repositories: Sequence[Repository]) -> list[Row]:
    """Current rows of a table about these repositories."""
    chosen = {repository.repository_id for repository in repositories}
    return [row for row in to_rows(shop.store().current(table)) if row["repository_id"] in chosen]
