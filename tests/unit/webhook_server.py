"""A webhook on the loopback interface that behaves as a test wants: a status, bytes that are no HTTP, no end."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GARBAGE = b"\x16\x03\x01 SSH-2.0 no http here\r\n\r\n"
SILENCE = b""
"""The connection stays open, and nothing is said."""
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nthe rest never comes"


def status(number: int) -> bytes:
    return f"HTTP/1.1 {number} Whatever\r\nContent-Length: 4\r\n\r\nbody".encode()


class WebhookServer:
    """Answers one request after the other with the given bytes, the last of them for ever."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/hooks/T0P/S3CR3T-path"
        self.messages: list[dict[str, object]] = []
        self.requests = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._answer(self._listening.accept()[0])

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length:" in line)
        while len(body) < length:
            body += connection.recv(65536)
        self.messages.append(json.loads(body))
        answer = self._answers[min(self.requests, len(self._answers) - 1)]
        self.requests += 1
        connection.sendall(answer)
        self._open.append(connection)
        if answer not in (SILENCE, ENDLESS):
            connection.close()

    def close(self) -> None:
        for one in (self._listening, *self._open):
            one.close()


@contextmanager
def webhook_server(*answers: bytes) -> Iterator[WebhookServer]:
    server = WebhookServer(answers)
    try:
        yield server
    finally:
        server.close()
