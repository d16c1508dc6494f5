"""What a caller may say about how a stage goes over its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pipeline.batch import Failure, Item, ItemsOnDemand, Outcome, Retry, StageReport, run_stage
from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import Record
from sandbox.errors import ImageMissing

T = TypeVar("T")


class Options(Record):
    """The same for all stages of a run."""

    workers: int = 1
    """Items at a time."""
    retry: Retry = Retry.NONE
    only: tuple[str, ...] = ()
    """Retry only items whose key begins with one of these; empty for all that `retry` covers."""


def over_items(
    stage: str,
    items: Sequence[Item[T]] | ItemsOnDemand[T],
    work: Callable[[T], Outcome],
    *,
    store: Store,
    failed_rows: Callable[[T, Failure], Mapping[str, Sequence[Row]]],
    options: Options,
) -> StageReport:
    """`run_stage` with the caller's options; an image that is gone is the machine's fault, not the item's.

    Raises ConfigurationError for tables without their journal: everything would be done again and recorded twice.
    """
    tables = store.root / "tables"
    if not (tables / "journal.sqlite").exists() and any(tables.glob("*/_delta_log")):
        raise ConfigurationError(
            f"{tables} has tables and no journal.sqlite, which says what is done; put that file back, or start over "
            "with another data folder (--data)"
        )

    def guarded(value: T) -> Outcome:
        try:
            return work(value)
        except ImageMissing as error:
            remedy = "it was removed there, and what is built stays built: another data folder (--data) makes it anew"
            raise InfrastructureFailure(f"{error}; {remedy}") from error

    chosen = frozenset(item.key for item in items if item.key.startswith(options.only)) if options.only else frozenset()
    retry = options.retry if chosen or not options.only else Retry.NONE
    return run_stage(
        stage,
        items,
        guarded,
        store=store,
        failed_rows=failed_rows,
        workers=options.workers,
        retry=retry,
        only=chosen,
    )
