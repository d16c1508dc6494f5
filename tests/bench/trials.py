"""Whole trials through the public contract: what one costs in time and in CPU, alone and side by side.

Which backend, and beside whom the figures are shown, is in sandbox.py.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.verdict import verdict
from sandbox.protocol import Backend
from sandbox.types import Judgement, Limits
from tests.bench.tasks import TASKS, VERIFIER, Task

LIMITS = Limits()
COMMAND_TIMEOUT_S = 60.0
JUDGE_TIMEOUT_S = 60.0
TRIVIAL_COMMANDS = ("true", "echo hello", "cd /tmp")


class TrialFailed(Exception):
    """A trial of the oracle did not pass, or one of doing nothing did: no figure of this run means anything."""


@dataclass(frozen=True)
class Level:
    """What was measured at one number of trials in parallel."""

    parallel: int
    trials: int
    seconds: float
    cpu_seconds: float
    """Busy time of the whole machine: daemons, and whatever else ran on it."""

    @property
    def per_minute(self) -> float:
        return 60 * self.trials / self.seconds

    @property
    def cpu_per_trial(self) -> float:
        return self.cpu_seconds / self.trials


def run_trial(backend: Backend, image: str, task: Task, *, solve: bool = True) -> None:
    """Start, act, freeze, close, judge, discard, as the pipeline does; without `solve` nothing is done in the sandbox.

    Raises TrialFailed when the verdict is not the one to expect, SandboxUnavailable, ImageMissing, VerifierBroken.
    """
    reference = f"bench-{uuid.uuid4().hex}"
    try:
        sandbox = backend.start(image, LIMITS)
        try:
            for command in task.solution if solve else ():
                result = sandbox.execute(command, timeout_s=COMMAND_TIMEOUT_S)
                if result.exit_code != 0:
                    raise TrialFailed(f"{task.name}: {command} ended with {result.exit_code}: {result.output}")
            state = sandbox.freeze(reference, keep=True)
        finally:
            sandbox.close()
        judgement = backend.judge(state, {VERIFIER: task.verifier}, limits=LIMITS, timeout_s=JUDGE_TIMEOUT_S)
    finally:
        backend.discard(reference)
    _check(task, judgement, solve)


def _check(task: Task, judgement: Judgement, solve: bool) -> None:
    expected = "passed" if solve else "failed"
    outcome = verdict(judgement.tests, task.passing_tests)
    if outcome != expected:
        raise TrialFailed(f"{task.name}: {outcome}, expected {expected}: {judgement.tests}")


def admit(backend: Backend, image: str) -> None:
    """Every task fails when nothing is done and passes when it is solved; also warms the machine up.

    Raises TrialFailed.
    """
    for task in TASKS:
        run_trial(backend, image, task, solve=False)
        run_trial(backend, image, task)


def measure(backend: Backend, image: str, parallel: int, seconds: float) -> Level:
    """Trials for at least `seconds`, and as many as there are tasks; every one passes. Raises TrialFailed."""
    tasks, guard = itertools.cycle(TASKS), threading.Lock()
    done, broken = itertools.count(), threading.Event()
    started, busy = time.monotonic(), busy_seconds()

    def work() -> None:
        try:
            while not broken.is_set():
                with guard:
                    task, number = next(tasks), next(done)
                    if number >= len(TASKS) and time.monotonic() - started >= seconds:
                        return
                run_trial(backend, image, task)
                with guard:
                    finished.append(time.monotonic())
        except BaseException:
            broken.set()
            raise

    finished: list[float] = []
    with ThreadPoolExecutor(parallel) as pool:
        for future in [pool.submit(work) for _ in range(parallel)]:
            future.result()
    return Level(parallel, len(finished), max(finished) - started, busy_seconds() - busy)


def command_seconds(backend: Backend, image: str, count: int) -> list[float]:
    """How long each of `count` trivial commands takes in one sandbox."""
    sandbox = backend.start(image, LIMITS)
    try:
        commands = itertools.cycle(TRIVIAL_COMMANDS)
        sandbox.execute("true", timeout_s=COMMAND_TIMEOUT_S)
        return [_timed(lambda: sandbox.execute(next(commands), timeout_s=COMMAND_TIMEOUT_S)) for _ in range(count)]
    finally:
        sandbox.close()


def start_teardown_seconds(backend: Backend, image: str, count: int) -> list[float]:
    """How long a start, one trivial command and the end of the sandbox take together, `count` times."""

    def one() -> None:
        sandbox = backend.start(image, LIMITS)
        try:
            sandbox.execute("true", timeout_s=COMMAND_TIMEOUT_S)
        finally:
            sandbox.close()

    return [_timed(one) for _ in range(count)]


def busy_seconds() -> float:
    """CPU time that the whole machine has spent since boot, s; time that other machines took is not counted."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq = (int(field) for field in fields[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _timed(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started
