"""A terminal in a sandbox on an overlay: the runtime starts a shell in its container and hands out the master.

What a terminal does is in terminal.py.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from sandbox.errors import SandboxUnavailable
from sandbox.overlay.box import Box
from sandbox.overlay.spec import Program
from sandbox.streams import Deadline
from sandbox.terminals.marks import ENVIRONMENT, STARTED, start_command
from sandbox.terminals.pty_stream import PtyFd

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0


class OverlayPty(PtyFd):
    """A PtyStream whose shell is in the container of a box."""

    def __init__(self, box: Box, workdir: str, rows: int, columns: int) -> None:
        """Raises SandboxUnavailable when no shell can be started."""
        self._box = box
        master, handle = box.terminal(Program(start_command(workdir, rows, columns), environment=ENVIRONMENT))
        super().__init__(master, _pid_behind(handle))
        self._early = b""
        self._checked = False
        try:
            self._leader = self._started()
            self.resize(rows, columns)
        except BaseException:
            super().close()
            raise

    def read(self, wait_s: float) -> bytes:
        """Output, as the protocol says; what came while the shell started is the first."""
        early, self._early = self._early, b""
        data = early or super().read(wait_s)
        if self.ended and not self._closed and not self._checked:
            # A sandbox that is gone has not ended its shell by itself. Raises SandboxUnavailable.
            self._box.ask("running")
            self._checked = True
        return data

    def close(self) -> None:
        """Kill what the shell started and has not given a session of its own, and give the descriptor back."""
        if not self.ended:
            try:
                self._box.ask("end_session", leader=self._leader)
            except SandboxUnavailable as error:
                # The sandbox may be closed or frozen already, and with it the shell.
                logger.debug("the shell of a terminal was not killed: %s", error)
        super().close()

    def _started(self) -> int:
        """What the container calls the shell, once it says so."""
        clock = Deadline(START_TIMEOUT_S)
        said = b""
        while clock.left > 0 and not self.ended:
            said += super().read(clock.left)
            if (match := STARTED.search(said)) is not None:
                self._early = said[match.end() :]
                return int(match[1])
        raise SandboxUnavailable(f"no shell started on a terminal: {said[-500:].decode('utf-8', 'replace')}")


def _pid_behind(handle: int) -> int:
    """The process of a pidfd as this process calls it. The keeper would name it otherwise."""
    text = Path(f"/proc/self/fdinfo/{handle}").read_text()
    os.close(handle)
    match = re.search(r"^Pid:\s*(-?\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else -1
