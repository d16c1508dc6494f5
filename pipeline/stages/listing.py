"""Which repositories belong to a crawl day: asked of the sources while it lasts, read from the table afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.batch import Failure, Item, Outcome
from pipeline.rows import repository_of, repository_row
from pipeline.schemas import Row, to_rows
from pipeline.sources import Source
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import Repository
from sandbox.locks import exclusive


def list_day(
    store: Store,
    sources: Sequence[Source],
    day: str,
    streams: Sequence[str],
    *,
    today: str | None,
    limit: int | None = None,
) -> list[Repository]:
    """The repositories of the given streams on one day, in the order in which they were first listed.

    The sources are asked when the day is today, or when nothing was stored for it; what they name beyond the stored
    listing is added to it, nothing is ever taken away. So a later run of the same day reads the same input. Runs that
    ask at once take turns, or each would add the same repositories. With `limit`, nothing is added to a stream that has
    so many, so that a later run without it goes on where this one ended.
    Raises ConfigurationError or InfrastructureFailure of a source.
    """
    with exclusive(store.lock("crawl-day"), "the listing of the day"):
        stored = _stored(store, day)
        if day == today or not stored:
            found = [repository for source in sources for repository in source.repositories(None)]
            known = {one.repository_id for one in stored}
            new = list({one.repository_id: one for one in found if one.repository_id not in known}.values())
            new = _within(limit, stored, new)
            _remember(store, day, new, first=len(stored))
            stored = [*stored, *new]
    return [one for one in stored if one.stream in streams]


def _within(limit: int | None, stored: Sequence[Repository], new: Sequence[Repository]) -> list[Repository]:
    """The first of `new` that fill each stream up to the limit."""
    held = Counter(one.stream for one in stored)
    chosen = []
    for one in new:
        if limit is None or held[one.stream] < limit:
            held[one.stream] += 1
            chosen.append(one)
    return chosen


def _stored(store: Store, day: str) -> list[Repository]:
    rows = [row for row in to_rows(store.current("listings")) if row["day"] == day]
    return [repository_of(row) for row in sorted(rows, key=lambda row: str(row["item_key"]).split("#")[1])]


def _remember(store: Store, day: str, repositories: Sequence[Repository], *, first: int) -> None:
    items = [
        Item(f"{day}/{repository.repository_id}#{number:08d}", repository)
        for number, repository in enumerate(repositories, first)
    ]

    def work(repository: Repository) -> Outcome:
        return Outcome({"listings": [{"day": day, "stream": repository.stream, **repository_row(repository)}]})

    def failed_rows(repository: Repository, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"listings": [{"day": day, "stream": repository.stream, "repository_id": repository.repository_id}]}

    over_items("listing", items, work, store=store, failed_rows=failed_rows, options=Options())
