"""The map that every stage is: items in, rows out, each item done once, each result on disk before it is counted.

Of the items no more is held than the caller holds: what is settled stays in the journal and is asked for in parts.
An item's failure is data: its row says why and the run goes on. Only a ConfigurationError stops a run. After a kill
the next call goes on where the last one was; two processes at one stage take turns.

Not here: what is done with an item (the stages), how rows are kept (journal.py, tables.py), how progress looks.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, TypeVar
from urllib.parse import quote

import pyarrow as pa

from pipeline.errors import ConfigurationError, FailedElsewhere, InfrastructureFailure, ItemRejected, place_of
from pipeline.journal import Entry, Failure, Journal
from pipeline.schemas import Row, RowInvalid, clean_text, table_schema, to_arrow
from pipeline.tables import EMPTY_ATTEMPT, Store
from pipeline.types import INFRASTRUCTURE
from pipeline.workers import each
from sandbox.errors import SandboxUnavailable
from sandbox.locks import exclusive

__all__ = [
    "PROGRESS_LOGGER",
    "BrokenOff",
    "Failure",
    "Item",
    "ItemsOnDemand",
    "Outcome",
    "Progress",
    "Retry",
    "StageReport",
    "run_stage",
]

PROGRESS_LOGGER = "pipeline.batch"
"""Each finished item is one INFO record here that carries a `Progress` as `record.progress`."""
logger = logging.getLogger(PROGRESS_LOGGER)

T = TypeVar("T")

UNKNOWN = "unknown"
"""The failure class of what has no name: never a label."""
FLUSH_ITEMS = 200
FLUSH_S = 30.0
"""Rows wait so long at most before they are seen in the tables; they are durable before. Every flush is a file."""
BACKOFF_S = 0.5
"""Before the second try after an infrastructure failure; doubled for each further one."""
MAX_ITEM_BYTES = 512 * 1024 * 1024
"""Most the rows of one item may be: the journal cannot hold a value of 1 GB."""
MAX_REASON = 2_000
"""Most characters of a reason."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """One piece of work. The key is unique within every table that the stage writes to."""

    key: str
    value: T


@dataclass(frozen=True)
class ItemsOnDemand(Generic[T]):
    """Items that are made whenever they are asked for: what is held of many is only what `make` takes them from."""

    count: int
    make: Callable[[int], Item[T]]
    """Of the item's number; the same item each time."""

    def __getitem__(self, number: int) -> Item[T]:
        return self.make(number)

    def __iter__(self) -> Iterator[Item[T]]:
        return map(self.make, range(self.count))


@dataclass(frozen=True)
class Outcome:
    """What the work on an item gave: payload rows by table, without the columns that the batch adds.

    A row may set `failure_class` and `reason` itself; else it gets those of `failure`.
    """

    rows: Mapping[str, Sequence[Row]]
    failure: Failure | None = None


class BrokenOff(Exception):
    """What ended the work on an item, with the rows that are true in spite of it: in place of those of `failed_rows`.

    Work raises it from its cause, which decides all else.
    """

    def __init__(self, cause: Exception, rows: Mapping[str, Sequence[Row]]) -> None:
        super().__init__(cause, rows)
        self.cause = cause
        self.rows = rows


class Retry(StrEnum):
    """Which failed items are done again."""

    NONE = "none"
    INFRASTRUCTURE = "infrastructure"
    ALL = "all"


@dataclass(frozen=True)
class Progress:
    """How far a stage is, for whoever shows it."""

    stage: str
    done: int
    """Items that are settled, failed ones and those of earlier runs included."""
    total: int
    failed: int


@dataclass(frozen=True)
class StageReport:
    """What a call to `run_stage` found and did. `total == done + sum(failed.values())`."""

    stage: str
    total: int
    """Different keys."""
    skipped: int
    """Items settled before this call; `total - skipped` were worked on now."""
    done: int
    """Items without a failure, earlier ones included."""
    failed: dict[str, int]
    """Failed items by failure class, earlier ones included."""
    missing: tuple[str, ...]
    """`table: item key` of each settled item whose rows are not in the table; empty unless a table was harmed."""
    seconds: float


def together(reports: Sequence[StageReport]) -> StageReport:
    """One report for calls that are shown as one, named after the first. Raises ValueError for none."""
    if not reports:
        raise ValueError("no report")
    failed: Counter[str] = Counter()
    for report in reports:
        failed.update(report.failed)
    return StageReport(
        stage=reports[0].stage,
        total=sum(report.total for report in reports),
        skipped=sum(report.skipped for report in reports),
        done=sum(report.done for report in reports),
        failed=dict(failed),
        missing=tuple(name for report in reports for name in report.missing),
        seconds=sum(report.seconds for report in reports),
    )


@dataclass(frozen=True)
class _Finished:
    entry: Entry
    tables: dict[str, pa.Table]


FailedRows = Callable[[T, Failure], Mapping[str, Sequence[Row]]]


def run_stage(
    stage: str,
    items: Sequence[Item[T]] | ItemsOnDemand[T],
    work: Callable[[T], Outcome],
    *,
    store: Store,
    failed_rows: FailedRows[T],
    workers: int | Callable[[], int] = 1,
    retry: Retry = Retry.NONE,
    only: frozenset[str] = frozenset(),
    max_attempts_infrastructure: int = 2,
) -> StageReport:
    """Do each item once and record it.

    Skipped is what an earlier call settled, unless `retry` covers its failure and `only` is empty or names its key.
    `work` runs in threads, at most `workers` at once; where that is asked, more of them when it has grown.
    `failed_rows` gives the payload rows of an item that raised, or that failed without rows. Rows of a new attempt
    supersede those of the former in `Store.current`.

    What `work` raises, by itself or as the cause of a BrokenOff: ItemRejected is a failed item; SandboxUnavailable and
    InfrastructureFailure are tried `max_attempts_infrastructure` times, then the item fails as `infrastructure`;
    ConfigurationError stops the run and is raised here; anything else fails the item as `unknown`. An error in
    `failed_rows` itself is raised here.
    SIGINT and SIGTERM: no item starts any more, finished ones are saved, then the signal takes its former course.
    """
    began = time.monotonic()
    lock = store.lock(f"stage-{quote(stage, safe='')}")
    with exclusive(lock, f"stage {stage}"), Journal(store.root) as journal:
        total = journal.want(item.key for item in items)
        run = _Run(stage, store, journal, work, failed_rows, max_attempts_infrastructure, total)
        run.flush()
        for _, entry in journal.wanted(stage):
            if entry is not None and not _again(entry, retry, only):
                run.count(entry)
        skipped = run.settled
        todo = (
            (items[number], entry.attempt + 1, entry.tables) if entry else (items[number], 1, ())
            for number, entry in journal.wanted(stage)
            if entry is None or _again(entry, retry, only)
        )
        try:
            left = total - skipped
            run.drive(todo, min(workers, left) if isinstance(workers, int) else lambda: min(workers(), left))
        finally:
            run.flush()
        missing = _missing(store, journal, stage)
    done = run.settled - run.failed.total()
    return StageReport(stage, run.total, skipped, done, dict(run.failed), missing, time.monotonic() - began)


def _missing(store: Store, journal: Journal, stage: str) -> tuple[str, ...]:
    """What the journal says is in the tables and is not."""
    tables = {table for _, entry in journal.wanted(stage) if entry is not None for table in entry.tables}
    return tuple(
        f"{table}: {key}" for table in sorted(tables) for key in journal.absent(stage, table, store.keys(table))
    )


def _again(entry: Entry, retry: Retry, only: frozenset[str]) -> bool:
    if entry.failure is None or (only and entry.key not in only):
        return False
    return retry is Retry.ALL or (retry is Retry.INFRASTRUCTURE and entry.failure.failure_class == INFRASTRUCTURE)


_Task = tuple[Item[T], int, tuple[str, ...]]
"""An item, the number of this attempt, and the tables that have rows of the former one."""


@dataclass
class _Run(Generic[T]):
    """One call of `run_stage`. Threads do `_perform`; all else happens in the thread that called."""

    stage: str
    store: Store
    journal: Journal
    work: Callable[[T], Outcome]
    failed_rows: FailedRows[T]
    tries: int
    total: int
    settled: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    """Items recorded since the last flush."""
    flushed_at: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)

    def drive(self, todo: Iterator[_Task[T]], workers: int | Callable[[], int]) -> None:
        """Do what is to be done; raises what stopped it, after saving what was finished."""
        stopped = each(
            lambda task: self._perform(*task),
            todo,
            workers=workers,
            receive=self._record,
            idle=self._flush_when_due,
            stop=self.stop,
        )
        self.flush()
        if stopped is not None:
            stopped.resume()

    def count(self, entry: Entry) -> None:
        """Take an item as settled."""
        self.settled += 1
        if entry.failure is not None:
            self.failed[entry.failure.failure_class] += 1

    def _record(self, finished: _Finished | None) -> None:
        if finished is None:
            return
        entry = finished.entry
        self.journal.record(entry, finished.tables)
        self.count(entry)
        self.waiting += 1
        progress = Progress(self.stage, self.settled, self.total, self.failed.total())
        outcome = f"{entry.failure.failure_class}: {entry.failure.reason}" if entry.failure else "done"
        logger.info(
            "%s %d/%d %s: %s", self.stage, progress.done, self.total, entry.key, outcome, extra={"progress": progress}
        )
        self._flush_when_due()

    def _flush_when_due(self) -> None:
        if self.waiting >= FLUSH_ITEMS or (self.waiting and time.monotonic() - self.flushed_at >= FLUSH_S):
            self.flush()

    def flush(self) -> None:
        """Move what the journal holds for this stage into the tables."""
        app_id = f"{self.stage}@{self.journal.id}"
        for group in self.journal.groups(self.stage):
            for name, rows in group.tables.items():
                self.store.append(name, rows, app_id=app_id, sequence=group.sequence)
            self.journal.flushed(self.stage, group.sequence)
        self.waiting, self.flushed_at = 0, time.monotonic()

    def _perform(self, item: Item[T], attempt: int, formerly: tuple[str, ...]) -> _Finished | None:
        """Do one item; None when it broke while the run was being stopped, for the stop may be the cause.

        Raises ConfigurationError, and what `failed_rows` raises.
        """
        started_at, began = datetime.now(UTC), time.monotonic()
        try:
            outcome = self._tried(item)
            if outcome.failure is not None and not any(outcome.rows.values()):
                outcome = Outcome(self.failed_rows(item.value, outcome.failure), outcome.failure)
            tables = _tables(item.key, attempt, outcome, formerly)
        except ConfigurationError:
            raise
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - becomes data, and _failure logs it
            error, rows = (raised.cause, raised.rows) if isinstance(raised, BrokenOff) else (raised, {})
            if self.stop.is_set() and not isinstance(error, ItemRejected):
                logger.warning("%s %s is given up: %s", self.stage, item.key, error)
                return None
            failure = self._failure(item.key, error)
            outcome = Outcome(rows or self.failed_rows(item.value, failure), failure)
            tables = _tables(item.key, attempt, outcome, formerly)
        written = tuple(sorted(name for name, rows in outcome.rows.items() if rows))
        seconds = time.monotonic() - began
        entry = Entry(self.stage, item.key, attempt, outcome.failure, started_at.isoformat(), seconds, written)
        return _Finished(entry, tables)

    def _tried(self, item: Item[T]) -> Outcome:
        for number in itertools.count(1):
            try:
                return self.work(item.value)
            except (BrokenOff, SandboxUnavailable, InfrastructureFailure) as raised:
                error = raised.cause if isinstance(raised, BrokenOff) else raised
                passing = isinstance(error, SandboxUnavailable | InfrastructureFailure)
                if not passing or number >= self.tries or self.stop.is_set():
                    raise
                logger.warning("%s %s: %s; trying again", self.stage, item.key, error)
                self.stop.wait(BACKOFF_S * 2 ** (number - 1))
        raise AssertionError("count() does not end")

    def _failure(self, key: str, error: BaseException) -> Failure:
        if isinstance(error, ItemRejected):
            return Failure(failure_class=error.failure_class, reason=_cut(error.reason))
        if isinstance(error, SandboxUnavailable | InfrastructureFailure):
            return Failure(failure_class=INFRASTRUCTURE, reason=_cut(f"{type(error).__name__}: {error}"))
        logger.error("%s %s failed without a name", self.stage, key, exc_info=error)
        text, place = f"{type(error).__name__}: {error}", place_of(error)
        if isinstance(error, FailedElsewhere):
            text, place = error.text, error.place
        return Failure(failure_class=UNKNOWN, reason=_cut(text) + f" (at {place})")


def _cut(reason: str) -> str:
    text = clean_text(reason)
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…"


def _tables(key: str, attempt: int, outcome: Outcome, formerly: tuple[str, ...]) -> dict[str, pa.Table]:
    """The rows of one attempt with the columns of the batch. Raises RowInvalid; ItemRejected when too large."""
    now = datetime.now(UTC)
    batch: Row = {"item_key": key, "attempt": attempt, "recorded_at": now}
    failure: Row = {
        "failure_class": outcome.failure.failure_class if outcome.failure else None,
        "reason": outcome.failure.reason if outcome.failure else "",
    }
    tables = {}
    for name, rows in outcome.rows.items():
        for row in rows:
            if taken := sorted(set(row) & set(batch)):
                raise RowInvalid(f"table {name}: column {taken[0]!r} is the batch's, a stage must not set it")
        if rows:
            tables[name] = to_arrow(table_schema(name), [{**failure, **row, **batch} for row in rows])
    for name in set(formerly) - set(tables):
        tables[name] = to_arrow(table_schema(name), [{**batch, "reason": EMPTY_ATTEMPT}])
    if (size := sum(table.nbytes for table in tables.values())) > MAX_ITEM_BYTES:
        raise ItemRejected("rows_too_large", f"the rows of this item have {size} bytes, the limit is {MAX_ITEM_BYTES}")
    return tables
