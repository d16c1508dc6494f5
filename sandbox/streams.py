"""Byte streams of a Docker engine that need a deadline: the output of an exec or a container, the log of a build.

The engine's client can only block on these, for ever and with everything in memory. What the bytes mean is not here.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from sandbox.errors import SandboxUnavailable

CHUNK = 1 << 16
SEND_TIMEOUT_S = 60
# Every way in which a call to an engine fails that is not an answer of the engine.
CONNECTION_ERRORS = (RequestException, HTTPError, OSError)


@contextmanager
def engine_call(what: str) -> Iterator[None]:
    """Turn whatever a call to the engine raises into SandboxUnavailable, with the engine's own text."""
    try:
        yield
    except APIError as error:
        raise SandboxUnavailable(f"{what}: {error.explanation or error}") from error
    except (DockerException, *CONNECTION_ERRORS) as error:
        raise SandboxUnavailable(f"{what}: the Docker engine does not answer ({error})") from error


class Sink(Protocol):
    """Takes bytes."""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""


class HijackedStream:
    """The connection on which an engine carries the streams of one exec or container, multiplexed in frames.

    `path` is that of the API, e.g. `/exec/ID/start`. Raises SandboxUnavailable, or APIError when the engine refuses.
    """

    def __init__(self, client: docker.DockerClient, path: str, body: dict[str, object] | None) -> None:
        api = client.api
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        response = api.post(
            f"{api.base_url}/v{api.api_version}{path}", json=body, headers=headers, stream=True, timeout=api.timeout
        )
        api._raise_for_status(response)  # The client's own mapping from status to error; it has no public name.
        self._response = response
        # The engine may send output right behind the answer's head: those bytes wait in this reader, not in the socket.
        reader = response.raw._fp.fp
        self._socket: socket.socket = reader.raw._sock
        self._socket.setblocking(False)
        self._pending: bytes = reader.read1(CHUNK) or b""
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        self._frame_left = 0
        self._frame_stream = 0
        self._header = bytearray()
        self.ended = False

    def __enter__(self) -> HijackedStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back to the system; what the other side runs goes on."""
        self._response.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Write to the other side's standard input. Raises SandboxUnavailable."""
        self._socket.settimeout(SEND_TIMEOUT_S)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise SandboxUnavailable(f"the engine closed a stream ({error})") from error
        finally:
            self._socket.setblocking(False)

    def read(self, sinks: Mapping[int, Sink], wait_s: float) -> bool:
        """Hand what arrives within `wait_s` to the sinks (1 standard output, 2 standard error); False when nothing did.

        Sets `ended` at the end of the stream. Raises SandboxUnavailable when the connection breaks.
        """
        data = self._pending or self._receive(wait_s)
        self._pending = b""
        if data:
            self._split(memoryview(data), sinks)
        return bool(data)

    def _receive(self, wait_s: float) -> bytes:
        if self.ended or not (self._buffered() or self._poll.poll(max(0.0, wait_s) * 1000)):
            return b""
        try:
            data = self._socket.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""
        except OSError as error:
            raise SandboxUnavailable(f"the connection to the engine broke ({error})") from error
        self.ended = not data
        return data

    def _buffered(self) -> bool:
        """A TLS connection may hold decrypted bytes that no poll of the socket shows."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _split(self, data: memoryview, sinks: Mapping[int, Sink]) -> None:
        """Take the frames apart: 1 byte stream, 3 zero bytes, 4 bytes big-endian length, then the content."""
        while data:
            if self._frame_left == 0:
                missing = 8 - len(self._header)
                self._header += data[:missing]
                data = data[missing:]
                if len(self._header) == 8:
                    self._frame_stream = self._header[0]
                    self._frame_left = int.from_bytes(self._header[4:], "big")
                    self._header.clear()
                continue
            content = data[: self._frame_left]
            self._frame_left -= len(content)
            data = data[len(content) :]
            if (sink := sinks.get(self._frame_stream)) is not None:
                sink.add(bytes(content))


class Deadline:
    """A moment in the future, on the clock that never jumps."""

    def __init__(self, seconds: float) -> None:
        self.started = time.monotonic()
        self._end = self.started + seconds

    @property
    def left(self) -> float:
        """Seconds left, negative when it has passed."""
        return self._end - time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since it was set."""
        return time.monotonic() - self.started
