"""How a driver and its keeper talk: JSON messages with a length in front, descriptors beside them.

Standard library only: both sides import it.
"""

from __future__ import annotations

import array
import json
import os
import socket
from typing import Any

Message = dict[str, Any]
_MOST_DESCRIPTORS = 8


class Closed(Exception):
    """The other side has closed the connection, or is gone."""


def send(connection: socket.socket, message: Message, descriptors: tuple[int, ...] = ()) -> None:
    """Write one message. Raises Closed."""
    body = json.dumps(message).encode("utf-8", "surrogatepass")
    data = len(body).to_bytes(8, "big") + body
    passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        sent = connection.sendmsg([data], passed)
        # The other side may have acted and hung up by now: even sending nothing would fail.
        if sent < len(data):
            connection.sendall(data[sent:])
    except OSError as error:
        raise Closed(str(error)) from error


def receive(connection: socket.socket) -> tuple[Message, list[int]]:
    """Read one message and the descriptors that came with it; the caller closes them. Raises Closed, TimeoutError."""
    head, descriptors = _first(connection)
    parts = bytearray(head)
    while len(parts) < 8 or len(parts) < 8 + int.from_bytes(parts[:8], "big"):
        wanted = 8 + int.from_bytes(parts[:8], "big") if len(parts) >= 8 else 8
        chunk = _read(connection, min(wanted - len(parts), 1 << 20))
        parts += chunk
    return json.loads(bytes(parts[8:]).decode("utf-8", "surrogatepass")), descriptors


def _first(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The start of a message; its descriptors arrive with its first byte."""
    try:
        data, ancillary, _flags, _address = connection.recvmsg(8, socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4))
    except TimeoutError:
        raise
    except OSError as error:
        raise Closed(str(error)) from error
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    if not data:
        raise Closed("the connection was closed")
    return data, list(descriptors)


def _read(connection: socket.socket, most: int) -> bytes:
    try:
        chunk = connection.recv(most)
    except OSError as error:
        raise Closed(str(error)) from error
    if not chunk:
        raise Closed("the connection was closed inside a message")
    return chunk
