"""The three standard streams of a container, as pipes that this process holds the other ends of."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping

from sandbox.errors import SandboxUnavailable
from sandbox.streams import CHUNK, Deadline, Sink

SEND_TIMEOUT_S = 60.0


class Pipes:
    """Implements `sandbox.shell.Channel`. `theirs` goes to the container, and is closed here once handed over."""

    def __init__(self) -> None:
        their_input, self._input = os.pipe()
        output, their_output = os.pipe()
        error, their_error = os.pipe()
        self.theirs = (their_input, their_output, their_error)
        self._streams = {output: 1, error: 2}
        self._poll = select.poll()
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)
        os.set_blocking(self._input, False)
        self._open = {self._input, *self._streams, *self.theirs}

    def hand_over(self) -> None:
        """Close the container's ends: it has them now, and their end must be seen here."""
        for descriptor in self.theirs:
            self._close(descriptor)

    @property
    def ended(self) -> bool:
        """Whether both streams have ended."""
        return not self._streams

    def send(self, data: bytes) -> None:
        """Write to standard input. Raises SandboxUnavailable when nobody reads it any more."""
        clock = Deadline(SEND_TIMEOUT_S)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._input, select.POLLOUT)
                if clock.left <= 0:
                    raise SandboxUnavailable("a sandbox does not read what it is told") from None
                poll.poll(clock.left * 1000)
            except OSError as error:
                raise SandboxUnavailable(f"a sandbox has closed its input ({error})") from error

    def read(self, sinks: Mapping[int, Sink], wait_s: float) -> bool:
        """Hand what arrives within `wait_s` to the sinks (1 output, 2 error); False when nothing did."""
        if self.ended:
            return False
        heard = False
        # Output comes first: a status that is read in the same turn is then never ahead of the output before it.
        for descriptor, _ in sorted(
            self._poll.poll(max(0.0, wait_s) * 1000), key=lambda event: self._streams[event[0]]
        ):
            heard = self._take(descriptor, sinks) or heard
        return heard

    def _take(self, descriptor: int, sinks: Mapping[int, Sink]) -> bool:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        stream = self._streams[descriptor]
        if not data:
            self._poll.unregister(descriptor)
            del self._streams[descriptor]
            self._close(descriptor)
            return False
        if (sink := sinks.get(stream)) is not None:
            sink.add(data)
        return True

    def close(self) -> None:
        """Close everything. Safe to call twice."""
        for descriptor in list(self._open):
            self._close(descriptor)
        self._streams.clear()

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)
