"""What a stage holds while it goes over its items does not depend on how many they are."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipeline.batch import Failure, Item, ItemsOnDemand, Outcome
from pipeline.errors import ConfigurationError
from pipeline.journal import Journal
from pipeline.schemas import Row
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store

FEW, MANY = 2_000, 20_000
MOST_BYTES_EACH = 10
"""How much more one more item may take: an object of Python takes at least 16, an item with its key 150."""


def item(number: int) -> Item[int]:
    return Item(f"repo-{number:06d}", number)


def failed_rows(number: int, failure: Failure) -> dict[str, Sequence[Row]]:
    return {"scores": []}


def over(store: Store, count: int, work: Callable[[int], Outcome]) -> int:
    """Items that are settled in the end."""
    items = ItemsOnDemand(count, item)
    report = over_items("score", items, work, store=store, failed_rows=failed_rows, options=Options(workers=2))
    assert report.missing == ()
    return report.done


def never(number: int) -> Outcome:
    raise AssertionError(f"item {number} is settled")


def settled(root: Path, count: int) -> Store:
    """A store in which all items are done and have their rows."""
    store = Store(root)
    rows = [{"item_key": item(number).key, "attempt": 1} for number in range(count)]
    store.append("scores", rows, app_id="score", sequence=1)
    with Journal(root) as journal, sqlite3.connect(journal.path) as connection:
        connection.executemany(
            "INSERT INTO items VALUES ('score', ?, 1, NULL, '', '2026-01-01T00:00:00+00:00', 0.1, '[\"scores\"]')",
            ((item(number).key,) for number in range(count)),
        )
    connection.close()
    return store


def peak(action: Callable[[], object]) -> int:
    """Most bytes that Python held at once during the action, beyond those before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_going_over_settled_items_takes_the_same_memory_for_few_and_for_many(tmp_path: Path) -> None:
    few, many = settled(tmp_path / "few", FEW), settled(tmp_path / "many", MANY)
    assert over(few, 2, never) == 2  # what is loaded once and stays is loaded here
    less = peak(lambda: over(few, FEW, never))
    more = peak(lambda: over(many, MANY, never))
    assert more - less < MOST_BYTES_EACH * (MANY - FEW)


def test_going_over_new_items_takes_the_same_memory_for_few_and_for_many(tmp_path: Path) -> None:
    def stopped(count: int) -> None:
        def work(number: int) -> Outcome:
            if number >= 100:
                raise ConfigurationError("enough")
            return Outcome({"scores": [{"repository_id": str(number)}]})

        with pytest.raises(ConfigurationError, match="enough"):
            over(Store(tmp_path / str(count)), count, work)

    stopped(200)
    less, more = peak(lambda: stopped(FEW)), peak(lambda: stopped(MANY))
    assert more - less < MOST_BYTES_EACH * (MANY - FEW)


def test_a_list_costs_more_than_the_bound(tmp_path: Path) -> None:
    """The measure sees what it is for."""
    assert peak(lambda: [item(number) for number in range(MANY - FEW)]) > MOST_BYTES_EACH * (MANY - FEW)
