"""What a caller may say about how a stage goes over its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

from pydantic import ConfigDict

from pipeline.batch import BrokenOff, Failure, Item, ItemsOnDemand, Outcome, Retry, StageReport, run_stage
from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.machines import Machines, Near
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.types import Record
from sandbox.errors import ImageMissing

T = TypeVar("T")


class Options(Record):
    """The same for all stages of a run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    workers: int = 1
    """Items at a time."""
    retry: Retry = Retry.NONE
    only: tuple[str, ...] = ()
    """Retry only items whose key begins with one of these; empty for all that `retry` covers."""
    machines: Machines | None = None
    """Those that do the work of a stage that needs an engine; None for this one alone."""


def anywhere(item: object) -> None:
    """Near no machine more than near others."""


def over_items(
    stage: str,
    items: Sequence[Item[T]] | ItemsOnDemand[T],
    work: Callable[[T], Outcome],
    *,
    store: Store,
    failed_rows: Callable[[T, Failure], Mapping[str, Sequence[Row]]],
    options: Options,
    machines: Machines | None = None,
    near: Near[T] = anywhere,
) -> StageReport:
    """`run_stage` with the caller's options; an image that is gone is the machine's fault, not the item's.

    With `machines` it is they that work. Then `work` and what it refers to travel, so that it must leave its result in
    nothing but what it gives or raises.
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
            raise _gone(error) from error
        except BrokenOff as error:
            if not isinstance(error.cause, ImageMissing):
                raise
            raise BrokenOff(_gone(error.cause), error.rows) from error

    chosen = frozenset(item.key for item in items if item.key.startswith(options.only)) if options.only else frozenset()
    retry = options.retry if chosen or not options.only else Retry.NONE
    with nullcontext(guarded) if machines is None else machines.spread(guarded, near) as done:
        return run_stage(
            stage,
            items,
            done,
            store=store,
            failed_rows=failed_rows,
            workers=options.workers if machines is None else machines.slots,
            retry=retry,
            only=chosen,
        )


def _gone(error: ImageMissing) -> InfrastructureFailure:
    remedy = "it was removed there, and what is built stays built: another data folder (--data) makes it anew"
    return InfrastructureFailure(f"{error}; {remedy}")
