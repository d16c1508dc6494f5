"""Work and errors that cross into another process: a real one, started for the test."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import pytest

import pipeline.batch
from pipeline.batch import BrokenOff, Item, Outcome, StageReport
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.machines import Machines, Near
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.travel import answer, pack, read, unpack
from sandbox.building.room import OutOfSpace
from sandbox.errors import ImageMissing, SandboxUnavailable

T = TypeVar("T")
Found = TypeVar("Found")


class Engine:
    """Belongs to a machine: it cannot be copied."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()


def named(name: object) -> object:
    """On the other side there is another engine."""
    return Engine(f"their {name}")


def there(work: bytes, value: bytes) -> bytes:
    return answer(lambda: cast("Callable[[object], object]", unpack(work, named))(unpack(value, named)))


def name_of(thing: object) -> str | None:
    return "engine" if isinstance(thing, Engine) else None


class OneProcess:
    """Implements Machines with one other process."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def slots(self) -> int:
        return 2

    @contextmanager
    def spread(self, work: Callable[[T], Outcome], near: Near[T]) -> Iterator[Callable[[T], Outcome]]:
        packed = pack(work, name_of)
        yield lambda value: cast("Outcome", read(self._pool.submit(there, packed, pack(value, name_of)).result(60)))

    def everywhere(self, call: Callable[[], Found]) -> Mapping[str, Found]:
        packed = pack(lambda _: call(), name_of)
        return {"it": cast("Found", read(self._pool.submit(there, packed, pack(None, name_of)).result(60)))}


@pytest.fixture(scope="module")
def other() -> Iterator[Machines]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield OneProcess(pool)


def failing(kind: str) -> Outcome:
    """Module functions and nested ones alike."""
    if kind == "rejected":
        raise ItemRejected("too_large", "50,001 files")
    if kind == "full":
        raise OutOfSpace("no room")
    if kind == "missing":
        raise ImageMissing("image x is gone")
    if kind == "half":
        raise BrokenOff(SandboxUnavailable("engine gone"), {"scores": [{"repository_id": "half", "score": 0.25}]})
    if kind == "configuration":
        raise ConfigurationError("set x")
    raise KeyError("odd")


def do(store: Store, machines: Machines, engine: Engine, keys: list[str]) -> StageReport:
    def work(value: str) -> Outcome:
        if value == "sound":
            return Outcome({"scores": [{"repository_id": value, "scorer": engine.name}]})
        return failing(value)

    def failed_rows(value: str, failure: pipeline.batch.Failure) -> Mapping[str, list[Row]]:
        return {"scores": [{"repository_id": value}]}

    items = [Item(key, key) for key in keys]
    return over_items(
        "s", items, work, store=store, failed_rows=failed_rows, options=Options(machines=machines), machines=machines
    )


def test_work_in_another_process_uses_what_is_there_and_its_errors_keep_their_kinds(
    other: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.batch, "BACKOFF_S", 0.001)
    store = Store(tmp_path)
    report = do(store, other, Engine("our engine"), ["sound", "rejected", "full", "missing", "half", "odd"])
    assert (report.done, report.failed) == (1, {"too_large": 1, "infrastructure": 3, "unknown": 1})
    rows = {str(row["repository_id"]): row for row in to_rows(store.current("scores"))}
    assert rows["sound"]["scorer"] == "their engine"
    assert rows["rejected"]["reason"] == "50,001 files"
    assert rows["full"]["reason"] == "OutOfSpace: no room"
    assert "image x is gone; it was removed there" in str(rows["missing"]["reason"])
    assert (rows["half"]["score"], rows["half"]["reason"]) == (0.25, "SandboxUnavailable: engine gone")
    assert "KeyError: 'odd' (at test_travel.py:" in str(rows["odd"]["reason"])
    assert str(rows["odd"]["reason"]).endswith(" in failing)")


def test_a_mistake_in_the_configuration_of_another_machine_stops_the_run(other: Machines, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set x"):
        do(Store(tmp_path), other, Engine("our engine"), ["configuration"])


def test_what_a_thing_of_the_machine_does_is_asked_of_the_other_ones(other: Machines) -> None:
    engine = Engine("our engine")
    assert other.everywhere(lambda: engine.name) == {"it": "their engine"}


class Stubborn(SandboxUnavailable):
    """Cannot be made again from its text."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is gone")


class Named(InfrastructureFailure):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Stubborn("a", 1), SandboxUnavailable, "a:1 is gone"),
        (Named("net"), Named, "net"),
        (ItemRejected("a", "b"), ItemRejected, "a: b"),
    ],
)
def test_an_error_that_cannot_travel_is_told_by_the_next_kind_above_it(
    error: Exception, kind: type[Exception], text: str
) -> None:
    def call() -> None:
        raise error

    with pytest.raises(kind) as found:
        read(answer(call))
    assert (type(found.value), str(found.value)) == (kind, text)


def test_a_result_that_cannot_travel_is_an_error_of_its_item() -> None:
    with pytest.raises(Exception, match="pickle"):
        read(answer(threading.Lock))


def test_a_traceback_of_another_process_is_kept_as_a_note() -> None:
    with pytest.raises(Exception, match="KeyError: 'odd'") as found:
        read(answer(lambda: failing("odd")))
    assert "in failing" in found.value.__notes__[0]
