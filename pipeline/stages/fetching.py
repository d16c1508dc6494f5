"""Brings the trees of listed repositories into the data folder, with licence and size on their rows.

The tree of a domain says which context it holds: a row in `contexts` for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.archive_cache import CONTEXTS, ArchiveCache
from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.checkout import Tree
from pipeline.contexts import described
from pipeline.errors import ItemRejected
from pipeline.rows import checkout_row, context_row, repository_row
from pipeline.schemas import Row
from pipeline.sources import Source
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import Repository


def fetch(
    store: Store, repositories: Sequence[Repository], sources: Sequence[Source], destination: Path, options: Options
) -> StageReport:
    """One row in `repositories` for each; a repository that is refused has its reason there."""
    by_name = {source.name: source for source in sources}
    archives = ArchiveCache(store.root / CONTEXTS)
    destination.mkdir(parents=True, exist_ok=True)

    def work(repository: Repository) -> Outcome:
        source = by_name.get(repository.source)
        if source is None:
            raise ItemRejected("source_unknown", f"the source {repository.source!r} is not configured any more")
        checkout = source.fetch(repository, destination)
        rows: dict[str, Sequence[Row]] = {"repositories": [checkout_row(repository, checkout)]}
        if (domain := repository.domain) is not None:
            rows["contexts"] = [
                context_row(repository, domain, one, archives.retrieved_at(one.sha256))
                for one in described(Tree(destination / f"{checkout.tree_sha256}.tar"))
            ]
        return Outcome(rows)

    def failed_rows(repository: Repository, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"repositories": [repository_row(repository)]}

    items = [Item(repository.repository_id, repository) for repository in repositories]
    return over_items("fetch", items, work, store=store, failed_rows=failed_rows, options=options)
