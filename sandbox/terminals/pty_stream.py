"""The two-way stream between a terminal and the programs in it, whatever carries it; and the one over a descriptor.

The one through an engine is in container/terminal.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import termios
from typing import Protocol

from sandbox.terminals.foreground import awaits_input, is_over

CHUNK = 1 << 16
# A program that reads nothing while it is sent this much will not read it.
MOST_UNSENT = 1 << 20


class PtyStream(Protocol):
    """The terminal's side of a pseudo-terminal."""

    @property
    def ended(self) -> bool:
        """Whether the shell is over and all its output was read."""

    def send(self, data: bytes) -> None:
        """Type. What the other side does not take yet is kept and sent during `read`.

        Raises ValueError when too much is kept already, SandboxUnavailable when the connection broke.
        """

    def read(self, wait_s: float) -> bytes:
        """Output that is there or comes within `wait_s` seconds; may be empty earlier. Raises SandboxUnavailable."""

    def resize(self, rows: int, columns: int) -> None:
        """Tell the programs a new size. Raises SandboxUnavailable."""

    def awaits_input(self) -> bool | None:
        """Whether the program in the foreground is blocked reading the terminal; None when nobody can know."""

    def close(self) -> None:
        """End the shell and the programs of its session. Safe to call twice."""


class Unsent:
    """Bytes that the other side has not taken yet."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __bool__(self) -> bool:
        return bool(self._data)

    def add(self, data: bytes) -> None:
        """Keep more. Raises ValueError when it is too much."""
        if len(self._data) + len(data) > MOST_UNSENT:
            raise ValueError(f"the program reads nothing: {len(self._data)} bytes of keys wait for it already")
        self._data += data

    def first(self) -> bytes:
        """What to try next."""
        return bytes(self._data[:CHUNK])

    def taken(self, count: int) -> None:
        """So many bytes were sent."""
        del self._data[:count]


class PtyFd:
    """A PtyStream over the master's descriptor of a pseudo-terminal, which it owns.

    `shell` is the process that leads the session on it, as this process sees its id. Ending that process is the
    caller's; closing the descriptor hangs the session up.
    """

    def __init__(self, descriptor: int, shell: int) -> None:
        self._descriptor = descriptor
        self._shell = shell
        self._unsent = Unsent()
        self._closed = False
        self._hung_up = False
        os.set_blocking(descriptor, False)

    @property
    def ended(self) -> bool:
        """Whether nobody holds the terminal any more, or its shell is over and nothing is left to read."""
        return self._hung_up or self._closed or (is_over(self._shell) and not self._poll(select.POLLIN, 0))

    def send(self, data: bytes) -> None:
        """Type, as the protocol says."""
        if not self.ended:
            self._unsent.add(data)
            self._flush()

    def read(self, wait_s: float) -> bytes:
        """Output, as the protocol says."""
        if self._closed or self._hung_up:
            return b""
        if self._poll(select.POLLIN | (select.POLLOUT if self._unsent else 0), wait_s) & select.POLLOUT:
            self._flush()
        try:
            return os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            # This is how a master learns that the last process closed the other side.
            if error.errno != errno.EIO:
                raise
            self._hung_up = True
            return b""

    def resize(self, rows: int, columns: int) -> None:
        """Tell the programs a new size."""
        if not self._closed:
            fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def awaits_input(self) -> bool | None:
        """Whether the program in the foreground is blocked reading the terminal."""
        return awaits_input(self._shell)

    def close(self) -> None:
        """Give the descriptor back: the session gets a hang-up."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._unsent.taken(os.write(self._descriptor, self._unsent.first()))
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._hung_up = True

    def _poll(self, events: int, wait_s: float) -> int:
        poll = select.poll()
        poll.register(self._descriptor, events)
        return next((seen for _, seen in poll.poll(max(0.0, wait_s) * 1000)), 0)
