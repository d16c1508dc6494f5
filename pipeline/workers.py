"""Threads that take tasks one by one and end in good order, also when a signal comes.

Not here: what a task is, what is kept of it (batch.py).
"""

from __future__ import annotations

import itertools
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Generic, NoReturn, TypeVar

logger = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")

GRACE_S = 10.0
"""How long stopped threads are waited for; a second signal ends the wait. They are daemons: the process can end."""
IDLE_S = 10.0
"""How often `idle` is called while nothing comes back."""


@dataclass(frozen=True)
class Stopped:
    """Why not all tasks were done: exactly one of the two is set."""

    cause: BaseException | None = None
    signum: int | None = None

    def resume(self) -> NoReturn:
        """Raise the cause, or let the signal take the course it would have taken without us."""
        if self.cause is not None:
            raise self.cause
        if self.signum is not None:
            signal.raise_signal(self.signum)
        raise KeyboardInterrupt(f"stopped by signal {self.signum}")


@dataclass(frozen=True)
class _Done(Generic[Result]):
    result: Result


def each(
    perform: Callable[[Task], Result],
    tasks: Iterator[Task],
    *,
    workers: int | Callable[[], int],
    receive: Callable[[Result], None],
    idle: Callable[[], None],
    stop: threading.Event,
) -> Stopped | None:
    """Run `perform` in `workers` threads and hand every result to `receive` in the calling thread.

    A thread gets its next task only when its last result was received, so at most `workers` results are in flight.
    Where `workers` is asked, it is asked again and again: threads are added when it grows, and none is taken away.
    An exception of `perform`, SIGINT or SIGTERM (in the main thread) sets `stop`: no task starts any more, running
    ones have GRACE_S to finish, and the return value says what it was. An exception of `receive` is raised at once.
    """
    run = _Run(perform, workers if callable(workers) else partial(int, workers))
    try:
        with _signals_into(run.outbox):
            return run.collect(tasks, receive, idle, stop)
    finally:
        stop.set()
        run.dismiss()


class _Run(Generic[Task, Result]):
    def __init__(self, perform: Callable[[Task], Result], wanted: Callable[[], int]) -> None:
        self._perform = perform
        self._wanted = wanted
        self._workers = 0
        self._inbox: queue.SimpleQueue[tuple[Task] | None] = queue.SimpleQueue()
        self.outbox: queue.SimpleQueue[_Done[Result] | Stopped] = queue.SimpleQueue()

    def _hire(self) -> int:
        """Add the threads that are wanted and not there; how many."""
        there, self._workers = self._workers, max(self._workers, self._wanted())
        for number in range(there, self._workers):
            threading.Thread(target=self._serve, name=f"worker-{number}", daemon=True).start()
        return self._workers - there

    def dismiss(self) -> None:
        """Tell every thread to end after its present task."""
        for _ in range(self._workers):
            self._inbox.put(None)

    def _serve(self) -> None:
        while (task := self._inbox.get()) is not None:
            try:
                self.outbox.put(_Done(self._perform(task[0])))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that called
                self.outbox.put(Stopped(cause=error))

    def collect(
        self, tasks: Iterator[Task], receive: Callable[[Result], None], idle: Callable[[], None], stop: threading.Event
    ) -> Stopped | None:
        running = self._hand_out(tasks, self._hire())
        stopped: Stopped | None = None
        deadline = float("inf")
        while running or not self.outbox.empty():  # the last message may be a signal
            try:
                message = self.outbox.get(timeout=max(0.0, min(IDLE_S, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    break
                idle()
                if stopped is None:
                    running += self._hand_out(tasks, self._hire())
                continue
            if isinstance(message, _Done):
                running -= 1
                receive(message.result)
                if stopped is None:
                    running += self._hand_out(tasks, 1 + self._hire())
                continue
            running -= message.signum is None
            deadline = min(deadline, time.monotonic() + GRACE_S)
            if stopped is not None and message.signum is not None:
                deadline = 0.0
            stopped = stopped or message
            stop.set()
            logger.warning("stopping; %d tasks are still at work", running)
        return stopped

    def _hand_out(self, tasks: Iterator[Task], most: int) -> int:
        """Put so many tasks into the inbox, or those that are left; how many."""
        handed = 0
        for task in itertools.islice(tasks, most):
            self._inbox.put((task,))
            handed += 1
        return handed


@contextmanager
def _signals_into(outbox: queue.SimpleQueue[_Done[Result] | Stopped]) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into messages, so that none of them cuts the receiving of a result in two.

    Only the main thread can do so; elsewhere, and where a signal is ignored, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(signum: int, frame: FrameType | None) -> None:
        outbox.put(Stopped(signum=signum))  # SimpleQueue.put may be called in a signal handler

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)]
    for number in ours:
        signal.signal(number, tell)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, handlers[number])
