from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest

import pipeline.workers
from pipeline.workers import Stopped, each


def go(
    perform: Callable[[int], int], tasks: int, workers: int = 1, idle: Callable[[], None] = lambda: None
) -> tuple[Stopped | None, list[int]]:
    received: list[int] = []
    stopped = each(
        perform, iter(range(tasks)), workers=workers, receive=received.append, idle=idle, stop=threading.Event()
    )
    return stopped, received


def signalling(at: int) -> Callable[[int], int]:
    def perform(task: int) -> int:
        if task == at:
            signal.raise_signal(signal.SIGTERM)  # handled in the main thread
        return task

    return perform


def test_every_result_is_received_in_the_calling_thread() -> None:
    threads: set[str] = set()
    each(
        lambda task: task,
        iter(range(10)),
        workers=3,
        receive=lambda _: threads.add(threading.current_thread().name),
        idle=lambda: None,
        stop=threading.Event(),
    )
    assert threads == {threading.current_thread().name}
    assert go(lambda task: task * 2, 5) == (None, [0, 2, 4, 6, 8])


def test_no_task_starts_before_a_former_result_was_received() -> None:
    lead: list[int] = []
    begun: list[int] = []
    each(
        begun.append,
        iter(range(20)),
        workers=2,
        receive=lambda _: lead.append(len(begun) - len(lead)),
        idle=lambda: None,
        stop=threading.Event(),
    )
    assert max(lead) <= 2


def test_an_error_of_a_task_ends_the_run_and_is_handed_back() -> None:
    stopped, received = go(lambda task: 1 // (2 - task), 5)
    assert received == [0, 1]
    assert stopped is not None
    with pytest.raises(ZeroDivisionError):
        stopped.resume()


def test_a_signal_ends_the_run_after_the_task_at_work() -> None:
    stopped, received = go(signalling(at=2), 100)
    assert stopped == Stopped(signum=signal.SIGTERM)
    assert 2 in received and len(received) < 10


def test_a_signal_during_the_last_task_is_not_lost() -> None:
    received: list[int] = []

    def receive(task: int) -> None:
        received.append(task)
        if task == 2:
            signal.raise_signal(signal.SIGTERM)

    stopped = each(
        lambda task: task, iter(range(3)), workers=1, receive=receive, idle=lambda: None, stop=threading.Event()
    )
    assert (stopped, received) == (Stopped(signum=signal.SIGTERM), [0, 1, 2])


def test_the_former_handler_is_back_afterwards_and_gets_the_signal() -> None:
    seen: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        stopped, _ = go(signalling(at=0), 1)
        assert seen == []
        assert stopped is not None
        with pytest.raises(KeyboardInterrupt, match="stopped by signal 15"):
            stopped.resume()
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_an_ignored_signal_stays_ignored() -> None:
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert go(signalling(at=0), 3) == (None, [0, 1, 2])
    finally:
        signal.signal(signal.SIGTERM, former)


def test_a_task_that_hangs_is_given_up_after_the_grace_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.workers, "GRACE_S", 0.1)
    release = threading.Event()

    def perform(task: int) -> int:
        if task == 0:
            release.wait(30)
        raise ValueError("stop")

    began = time.monotonic()
    stopped, received = go(perform, 5, workers=2)
    release.set()
    assert (type(stopped.cause) if stopped else None, received) == (ValueError, [])
    assert time.monotonic() - began < 5


def test_idle_is_called_while_nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.workers, "IDLE_S", 0.01)
    calls: list[int] = []
    go(lambda task: time.sleep(0.1) or task, 1, idle=lambda: calls.append(1))  # type: ignore[func-returns-value]
    assert calls


def test_workers_are_added_while_the_run_goes_on_and_no_more_than_are_wanted() -> None:
    wanted, received = [1], []
    both = threading.Barrier(2)

    def perform(task: int) -> int:
        if task >= 3:
            both.wait(10)  # only two at a time get past this
        return task

    def receive(task: int) -> None:
        received.append(task)
        wanted[0] = 2

    stopped = each(
        perform, iter(range(9)), workers=lambda: wanted[0], receive=receive, idle=lambda: None, stop=threading.Event()
    )
    assert (stopped, sorted(received)) == (None, list(range(9)))
    threads = {thread.name for thread in threading.enumerate() if thread.name.startswith("worker-")}
    assert threads <= {"worker-0", "worker-1"}
