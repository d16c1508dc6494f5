from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import pipeline.batch
from pipeline.batch import BrokenOff, Failure, Item, Outcome, Progress, Retry, StageReport, run_stage, together
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.journal import Journal
from pipeline.schemas import Row, to_rows
from pipeline.tables import Store
from sandbox.errors import SandboxUnavailable


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(pipeline.batch, "BACKOFF_S", 0.001)
    return Store(tmp_path)


def failed_rows(value: str, failure: Failure) -> dict[str, list[Row]]:
    return {"scores": [{"repository_id": value}]}


class Work:
    """Gives one row for an item, or raises what was told for it: one error per try, the last one for good."""

    def __init__(self, **errors: Sequence[Exception]) -> None:
        self.errors = {key: list(errors) for key, errors in errors.items()}
        self.tried: list[str] = []

    def __call__(self, value: str) -> Outcome:
        self.tried.append(value)
        if errors := self.errors.get(value):
            raise errors.pop(0)
        return Outcome({"scores": [{"repository_id": value, "score": 0.5}]})


def items(keys: str) -> list[Item[str]]:
    return [Item(key, key) for key in keys]


def do(store: Store, keys: str, work: Work, **options: object) -> StageReport:
    return run_stage("score", items(keys), work, store=store, failed_rows=failed_rows, **options)  # type: ignore[arg-type]


def found(store: Store) -> dict[str, tuple[object, ...]]:
    rows = to_rows(store.current("scores"))
    return {str(r["item_key"]): (r["attempt"], r["score"], r["failure_class"], r["reason"]) for r in rows}


def test_every_item_gets_its_row_and_is_not_done_again(store: Store) -> None:
    work = Work()
    report = do(store, "abc", work, workers=2)
    assert (report.total, report.skipped, report.done, report.failed) == (3, 0, 3, {})
    again = do(store, "abcd", work)
    assert (again.total, again.skipped, again.done) == (4, 3, 4)
    assert sorted(work.tried) == ["a", "b", "c", "d"]
    assert found(store) == {key: (1, 0.5, None, "") for key in "abcd"}
    assert store.read("scores").column("recorded_at").null_count == 0


def test_an_item_listed_twice_is_done_once(store: Store) -> None:
    work = Work()
    assert do(store, "aba", work).total == 2
    assert work.tried == ["a", "b"]


def test_a_rejected_item_is_a_row_with_its_reason_and_the_run_goes_on(store: Store) -> None:
    report = do(store, "ab", Work(a=[ItemRejected("too_large", "50,001 files")]))
    assert (report.done, report.failed) == (1, {"too_large": 1})
    assert found(store) == {"a": (1, None, "too_large", "50,001 files"), "b": (1, 0.5, None, "")}


@pytest.mark.parametrize("error", [SandboxUnavailable("engine gone"), InfrastructureFailure("no route")])
def test_an_infrastructure_failure_is_tried_again_in_the_same_run(store: Store, error: Exception) -> None:
    work = Work(a=[error])
    assert do(store, "a", work).done == 1
    assert work.tried == ["a", "a"]
    assert found(store) == {"a": (1, 0.5, None, "")}


def test_an_infrastructure_failure_that_stays_is_recorded_as_such(store: Store) -> None:
    report = do(store, "a", Work(a=[SandboxUnavailable("engine gone")] * 2))
    assert report.failed == {"infrastructure": 1}
    assert found(store) == {"a": (1, None, "infrastructure", "SandboxUnavailable: engine gone")}


def test_an_error_without_a_name_is_unknown_with_its_type_text_and_place(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    assert do(store, "ab", Work(a=[KeyError("odd \ud800")])).failed == {"unknown": 1}
    _, _, failure_class, reason = found(store)["a"]
    assert failure_class == "unknown"
    assert "KeyError: 'odd \\ud800' (at test_batch.py:" in str(reason)
    assert any(record.exc_info for record in caplog.records)


def test_a_row_with_an_unknown_column_fails_its_item_and_names_column_and_table(store: Store) -> None:
    def work(value: str) -> Outcome:
        return Outcome({"scores": [{"scroe": 0.5}]})

    run_stage("score", items("a"), work, store=store, failed_rows=failed_rows)
    assert "RowInvalid: table scores has no column 'scroe'" in str(found(store)["a"][3])


def test_a_configuration_error_stops_the_run_and_keeps_what_was_finished(store: Store) -> None:
    work = Work(c=[ConfigurationError("sources.x is unknown; use registry or local")])
    with pytest.raises(ConfigurationError, match="use registry or local"):
        do(store, "abcdef", work)
    assert work.tried == ["a", "b", "c"]
    assert sorted(found(store)) == ["a", "b"]
    assert do(store, "abcdef", work).skipped == 2


def test_an_item_that_breaks_while_the_run_is_stopped_is_done_again_next_time(store: Store) -> None:
    both, stopping = threading.Barrier(2), threading.Event()

    def work(value: str) -> Outcome:
        both.wait(10)
        if value == "a":
            stopping.set()
            raise ConfigurationError("the engine's socket is wrong; set engine.socket")
        stopping.wait(10)
        time.sleep(0.2)  # until the stop is known
        raise RuntimeError("torn down")

    with pytest.raises(ConfigurationError):
        run_stage("score", items("ab"), work, store=store, failed_rows=failed_rows, workers=2)
    assert found(store) == {}
    assert do(store, "ab", Work()).skipped == 0


def test_an_error_in_failed_rows_is_raised_and_not_recorded_as_the_items(store: Store) -> None:
    def broken(value: str, failure: Failure) -> dict[str, list[Row]]:
        raise ZeroDivisionError("in failed_rows")

    with pytest.raises(ZeroDivisionError):
        run_stage("score", items("a"), Work(a=[ItemRejected("x", "y")]), store=store, failed_rows=broken)
    assert found(store) == {}


@pytest.mark.parametrize(
    ("retry", "only", "redone"),
    [
        (Retry.NONE, frozenset[str](), ""),
        (Retry.INFRASTRUCTURE, frozenset[str](), "b"),
        (Retry.ALL, frozenset[str](), "bc"),
        (Retry.ALL, frozenset({"c", "a"}), "c"),
        (Retry.INFRASTRUCTURE, frozenset({"c"}), ""),
    ],
)
def test_retry_does_again_what_it_covers(store: Store, retry: Retry, only: frozenset[str], redone: str) -> None:
    do(store, "abc", Work(b=[InfrastructureFailure("net")] * 2, c=[ItemRejected("bad", "x")]))
    work = Work()
    report = do(store, "abc", work, retry=retry, only=only)
    assert "".join(work.tried) == redone
    assert (report.skipped, report.done) == (3 - len(redone), 1 + len(redone))
    assert {key: row[0] for key, row in found(store).items()} == {key: 1 + (key in redone) for key in "abc"}


def test_the_rows_of_an_earlier_attempt_are_superseded_even_by_none(store: Store) -> None:
    do(store, "a", Work(a=[ItemRejected("bad", "x")]))
    for work in (lambda value: Outcome({}), Work()):
        run_stage("score", items("a"), work, store=store, failed_rows=failed_rows, retry=Retry.ALL)
    assert found(store) == {}
    assert sorted(store.read("scores").column("attempt").to_pylist()) == [1, 2]


def test_an_item_can_fail_with_rows_of_its_own_in_several_tables(store: Store) -> None:
    def work(value: str) -> Outcome:
        own: Row = {"strategy": "own_dockerfile", "failure_class": "build_failed", "reason": "rc 1"}
        rows: dict[str, list[Row]] = {"image_builds": [own, {"strategy": "template"}], "scores": []}
        return Outcome(rows, Failure(failure_class="build_timeout", reason="600 s"))

    assert run_stage("image", items("a"), work, store=store, failed_rows=failed_rows).failed == {"build_timeout": 1}
    rows = to_rows(store.current("image_builds"))
    assert [(row["strategy"], row["failure_class"], row["reason"]) for row in rows] == [
        ("own_dockerfile", "build_failed", "rc 1"),
        ("template", "build_timeout", "600 s"),
    ]
    assert found(store) == {}


def test_a_failure_without_rows_gets_those_of_failed_rows(store: Store) -> None:
    failure = Failure(failure_class="no_task", reason="nothing documented")
    run_stage("score", items("a"), lambda value: Outcome({}, failure), store=store, failed_rows=failed_rows)
    assert found(store) == {"a": (1, None, "no_task", "nothing documented")}


def test_rows_that_were_finished_before_the_end_are_kept_with_the_failure_of_its_cause(store: Store) -> None:
    rows: dict[str, list[Row]] = {"scores": [{"repository_id": "half", "score": 0.25}]}
    work = Work(
        a=[BrokenOff(SandboxUnavailable("engine gone"), rows)] * 2,
        b=[BrokenOff(ValueError("odd"), rows)],
        c=[BrokenOff(InfrastructureFailure("net"), {})],
        d=[BrokenOff(ItemRejected("bad", "x"), {})],
    )
    assert do(store, "abcd", work).failed == {"infrastructure": 1, "unknown": 1, "bad": 1}
    assert work.tried == ["a", "a", "b", "c", "c", "d"]
    rows_found = {str(row["item_key"]): row for row in to_rows(store.current("scores"))}
    assert [rows_found[key]["score"] for key in "abcd"] == [0.25, 0.25, 0.5, None]
    assert rows_found["a"]["reason"] == "SandboxUnavailable: engine gone"


def test_no_more_items_are_at_work_than_workers(store: Store) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def work(value: str) -> Outcome:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return Outcome({})

    run_stage("score", items("abcdefghijkl"), work, store=store, failed_rows=failed_rows, workers=3)
    assert most == 3


def test_each_finished_item_logs_how_far_the_stage_is(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    do(store, "a", Work())
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=pipeline.batch.PROGRESS_LOGGER):
        do(store, "abc", Work(b=[ItemRejected("bad", "x")]))
    progress = [record.progress for record in caplog.records if hasattr(record, "progress")]
    assert progress == [Progress("score", 2, 3, 1), Progress("score", 3, 3, 1)]


def test_rows_are_in_the_tables_while_a_long_stage_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.batch, "FLUSH_ITEMS", 2)
    seen: list[int] = []

    def work(value: str) -> Outcome:
        seen.append(store.read("scores").num_rows)
        return Outcome({"scores": [{"repository_id": value}]})

    run_stage("score", items("abcdef"), work, store=store, failed_rows=failed_rows)
    assert seen == [0, 0, 2, 2, 4, 4]


def test_a_stage_at_work_in_another_thread_is_waited_for(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    started, work = threading.Event(), Work()

    def slow(value: str) -> Outcome:
        started.set()
        time.sleep(0.05)
        return work(value)

    def first() -> None:
        run_stage("score", items("abc"), slow, store=store, failed_rows=failed_rows)

    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    report = do(store, "abcd", work)
    thread.join()
    assert report.skipped == 3
    assert work.tried == ["a", "b", "c", "d"]
    assert any("waiting for stage score" in record.getMessage() for record in caplog.records)


def test_an_odd_stage_name_is_a_lock_file_like_any_other(store: Store) -> None:
    run_stage("day/2025-01-01 ü", items("a"), Work(), store=store, failed_rows=failed_rows)
    assert sorted(found(store)) == ["a"]


def test_the_journal_tells_when_and_how_long_an_item_was_worked_on(store: Store) -> None:
    do(store, "a", Work(a=[ItemRejected("bad", "x")]))
    with Journal(store.root) as journal:
        (entry,) = journal.find("a")
    assert (entry.stage, entry.attempt, entry.failure) == ("score", 1, Failure(failure_class="bad", reason="x"))
    assert entry.started_at.startswith("20") and 0 <= entry.seconds < 5


def test_settled_items_whose_table_was_lost_are_named(store: Store) -> None:
    def work(value: str) -> Outcome:
        return Outcome({"scores": [{"repository_id": value}]})

    assert do(store, "ab", work).missing == ()
    shutil.rmtree(store.path("scores"))
    assert do(store, "ab", work).missing == ("scores: a", "scores: b")


def test_reports_that_are_shown_as_one_add_up() -> None:
    one = StageReport("rating", total=5, skipped=1, done=3, failed={"a": 2}, missing=("t: x",), seconds=1.0)
    other = StageReport("model_rating", total=3, skipped=0, done=1, failed={"a": 1, "b": 1}, missing=(), seconds=0.5)
    assert together([one, other]) == StageReport(
        "rating", total=8, skipped=1, done=4, failed={"a": 3, "b": 1}, missing=("t: x",), seconds=1.5
    )
    with pytest.raises(ValueError, match="no report"):
        together([])
