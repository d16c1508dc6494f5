"""Ends a build at its time limit, or when it fills the disk: neither of the engine's builders does that itself."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import docker

from sandbox.streams import Deadline, engine_call
from sandbox.types import BuildLimits

logger = logging.getLogger(__name__)

POLL_S = 0.1
MB = 1 << 20


class Watch:
    """Calls `give_up` once, from a thread of its own, when a build has used up its time or its space.

    What a build writes is told by how much less is free than at its start, so builds beside it count as well: each of
    them has the whole of its space set aside before it starts, and the one that sees the limit first is ended.
    """

    def __init__(self, client: docker.DockerClient, limits: BuildLimits, give_up: Callable[[], None]) -> None:
        """Raises SandboxUnavailable."""
        with engine_call("asking the engine where it keeps images"):
            root = Path(client.api.info()["DockerRootDir"])
        self._root = root if root.is_dir() else None  # that of an engine on another machine is not seen
        self._limits = limits
        self._give_up = give_up
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.timed_out = False
        self.out_of_space = False

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def reason(self) -> str:
        """Why the build was ended; empty when it was not."""
        if self.out_of_space:
            return f"the build wrote more than {self._limits.disk_mb} MB"
        return f"the build took longer than {self._limits.timeout_s} s" if self.timed_out else ""

    def _run(self) -> None:
        deadline = Deadline(self._limits.timeout_s)
        free = self._free_mb()
        while not self._ended.wait(max(0.0, min(POLL_S, deadline.left))):
            written = free - self._free_mb()
            self.out_of_space = self._root is not None and written > self._limits.disk_mb
            self.timed_out = not self.out_of_space and deadline.left <= 0
            if self.reason:
                self._give_up()
                return

    def _free_mb(self) -> int:
        if self._root is None:
            return 0
        try:
            found = os.statvfs(self._root)
        except OSError as error:
            logger.warning("what a build writes is not watched: %s", error)
            self._root = None
            return 0
        return found.f_bavail * found.f_frsize // MB
