"""Processes that play one game each: lent to one attempt at a time, begun when needed, replaced when they break."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from sandbox.errors import SandboxUnavailable
from training.environments.game import GameFacts, Opening, Played

START_S = 120.0
"""Wall time after which a process that is not ready is given up: a JVM on a busy machine takes its time."""
GOLD_S = 300.0
"""The same for a gold path, which some games search for."""
_PROJECT = Path(__file__).resolve().parents[2]


class UnknownTask(Exception):
    """The game has no such task."""


class GameProcess:
    """One process. Not safe for several threads at a time.

    Every method raises SandboxUnavailable when the process is gone, says nothing in time, or its game broke: nothing
    may be concluded from that about the task or the agent.
    """

    def __init__(self, facts: GameFacts, material: Path | None = None) -> None:
        """Raises ConfigurationError when the game cannot be played on this machine."""
        given = [] if material is None else [str(material.resolve())]
        self._facts = facts
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            # The order of sets decides texts of some games: it is the same in every process.
            ["env", "PYTHONHASHSEED=0", sys.executable, "-m", "training.environments.worker", facts.name, *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=_PROJECT,
            start_new_session=True,
        )
        self._answers = bytearray()
        try:
            self._answer(START_S, "start")
        except BaseException:
            self.close()
            raise

    def start(self, task_type: str, variation: str) -> Opening:
        """Begin a task. Raises UnknownTask."""
        asked = {"ask": "start", "task_type": task_type, "variation": variation}
        return Opening.model_validate(self._ask(asked, START_S))

    def act(self, action: str) -> Played:
        """One action."""
        return Played.model_validate(self._ask({"ask": "act", "action": action}, self._facts.step_timeout_s))

    def gold(self) -> tuple[str, ...]:
        """Actions that solve the task that was begun; another `start` has to follow."""
        return tuple(self._ask({"ask": "gold"}, GOLD_S))

    def admissible(self) -> tuple[str, ...] | None:
        """Actions that the game would take now; None where it cannot say."""
        found = self._ask({"ask": "admissible"}, self._facts.step_timeout_s)
        return None if found is None else tuple(found)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process and what it started; safe to call twice."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what it did not read any more
                pipe.close()
        self._log.close()

    def _ask(self, question: Mapping[str, str], timeout_s: float) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._broken("it is gone") from error
        return self._answer(timeout_s, question["ask"]).get("value")

    def _answer(self, timeout_s: float, asked: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._line(timeout_s))
        if "error" not in answer:
            return answer
        text = f"{answer['error']}: {answer['text']} ({answer['place']})"
        if answer["error"] == "configuration":
            raise ConfigurationError(answer["text"])
        if asked == "start" and answer["error"] == "ValueError":
            raise UnknownTask(answer["text"])
        raise self._broken(text)

    def _line(self, timeout_s: float) -> bytes:
        """The next line of the process."""
        assert self._process.stdout is not None
        until = time.monotonic() + timeout_s
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._answers:
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise self._broken(f"it said nothing for {timeout_s:g} s")
            part = os.read(descriptor, 65536)
            if not part:
                raise self._broken("it ended")
            self._answers += part
        line, _, rest = bytes(self._answers).partition(b"\n")
        self._answers = bytearray(rest)
        return line

    def _broken(self, why: str) -> SandboxUnavailable:
        """The error to raise; the process is of no more use."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 500))
        said = self._log.read().decode("utf-8", "replace").strip()
        return SandboxUnavailable(
            f"the process of {self._facts.name}: {why}" + (f"; it had said: {said}" if said else "")
        )


class GamePool:
    """At most `size` processes of one game. Safe to use from threads."""

    def __init__(self, facts: GameFacts, size: int, material: Path | None = None) -> None:
        self.facts = facts
        self._material = material
        self._free = threading.Semaphore(size)
        self._idle: list[GameProcess] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lent(self) -> Iterator[GameProcess]:
        """A process for one attempt; waits for one. Raises ConfigurationError and SandboxUnavailable."""
        with self._free:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                process = GameProcess(self.facts, self._material)
            try:
                yield process
            finally:
                if process.alive:
                    with self._lock:
                        self._idle.append(process)
                else:
                    process.close()

    def close(self) -> None:
        """End the processes that nobody has; safe to call twice."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()
