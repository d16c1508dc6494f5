"""The proxy beside our engine: listens inside the engine's network namespace, connects from the machine's own.

Started by infra/engine.sh with the system's interpreter, before any package is installed; ends with the engine.
Standard library only. CONNECT and absolute http:// requests, one request a connection. Who may reach what is in
policy.py, how a host is reached in links.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import logging
import os
import resource
import socket
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandbox.egress.events import Journal
from sandbox.egress.heads import END, MAX_HEAD, BadRequest, Request, closing_response, parse_request
from sandbox.egress.hosts import HostPattern
from sandbox.egress.links import Link, NotReached, Rights, connect, upstreams_of_environment
from sandbox.egress.policy import TOKEN, Policy

logger = logging.getLogger(__name__)

CHUNK = 1 << 16
HEAD_TIMEOUT_S = 30.0
IDLE_TIMEOUT_S = 600.0
# For one address of a client, which is one step of a build: a step that opens more only hurts itself.
MAX_CONNECTIONS = 256
RESOLVERS = 64
_CLONE_NEWNET = 0x40000000
_FAULTS = {
    "refused": "403 host not allowed",
    "unresolved": "502 host has no address",
    "unreachable": "504 host not reached",
}


class Proxy:
    """Serves the clients of one engine."""

    def __init__(self, policy: Policy, journal: Journal) -> None:
        self._policy = policy
        self._journal = journal
        self._upstreams = upstreams_of_environment()
        self._open: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, from its head to its end."""
        client = str(writer.get_extra_info("peername")[0])
        self._open[client] += 1
        try:
            if self._open[client] <= MAX_CONNECTIONS:
                await self._answer(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            logger.debug("a connection ended: %s", error)
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(END)
        try:
            request = parse_request(head)
        except BadRequest as error:
            await _say(writer, "400 bad request", str(error))
            return
        kind = self._policy.kind(request.user, request.secret)
        if kind is None:
            await _say(writer, "407 who are you", "no name that is known", 'Proxy-Authenticate: Basic realm="egress"')
            return
        if not self._policy.allows(kind, request.host, request.port):
            self._journal.write(request.user, request.host, request.port, "refused")
            await _say(writer, _FAULTS["refused"], f"{request.host}:{request.port} is not on the list of allowed hosts")
            return
        rights = Rights(
            private=self._policy.may_be_private(kind, request.host, request.port),
            any=self._policy.is_registry(kind, request.host, request.port),
        )
        try:
            link = await connect(request, rights, self._upstreams)
        except NotReached as error:
            self._journal.write(request.user, request.host, request.port, error.outcome)
            await _say(writer, _FAULTS[error.outcome], str(error))
            return
        self._policy.learn(kind, request.host, request.port)
        try:
            if request.tunnel:
                await self._carry(request, link, reader, writer)
            else:
                await self._fetch(request, link, reader, writer)
        finally:
            link.writer.close()

    async def _carry(
        self, request: Request, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._journal.write(request.user, request.host, request.port, "ok")
        writer.write(b"HTTP/1.1 200 connected\r\n\r\n")
        await _together(_relay(reader, link.writer), _relay(link.reader, writer))

    async def _fetch(
        self, request: Request, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        link.writer.write(request.forwarded(link.upstream.credentials if link.upstream else None))
        body = asyncio.create_task(_relay(reader, link.writer, request.body_bytes, ends=False))
        try:
            status = await self._heads(request, link, writer)
            outcome = "status" if status >= 400 else "ok"
            self._journal.write(request.user, request.host, request.port, outcome, status)
            await _relay(link.reader, writer)
        finally:
            body.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, EOFError, TimeoutError):
                await body

    async def _heads(self, request: Request, link: Link, writer: asyncio.StreamWriter) -> int:
        """Hand on the head of the answer, and those that only announce it; its status."""
        try:
            while True:
                async with asyncio.timeout(IDLE_TIMEOUT_S):
                    head = await link.reader.readuntil(END)
                status, sent = closing_response(head)
                writer.write(sent)
                if status >= 200:
                    return status
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, BadRequest) as error:
            self._journal.write(request.user, request.host, request.port, "unreachable")
            await _say(writer, _FAULTS["unreachable"], f"no answer ({error})")
            raise ConnectionAbortedError(str(error)) from error


async def _say(writer: asyncio.StreamWriter, status: str, text: str, *headers: str) -> None:
    body = f"touchstone egress: {text}\n".encode()
    lines = [f"HTTP/1.1 {status}", *headers, "Content-Type: text/plain", f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
    await writer.drain()


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None = None, *, ends: bool = True
) -> None:
    """Carry bytes until the reader's end, or `limit` bytes; with `ends` the other side is told of the end."""
    left = limit
    while left is None or left > 0:
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            data = await reader.read(CHUNK if left is None else min(CHUNK, left))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        left = None if left is None else left - len(data)
    if ends and writer.can_write_eof():
        writer.write_eof()


async def _together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the two directions of a tunnel to their ends; where one breaks, the other ends too."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def listen_beside(pid: int, address: str, port: int) -> socket.socket:
    """A listening socket in the network namespace of a process, while this process stays in its own."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(file: int) -> None:
        if libc.setns(file, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "the network namespace of the engine cannot be entered")

    with open("/proc/thread-self/ns/net") as home, open(f"/proc/{pid}/ns/net") as there:
        enter(there.fileno())
        try:
            listener = socket.create_server((address, port), backlog=512)
        finally:
            enter(home.fileno())
    return listener


async def _to_registry(registry: HostPattern, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The engine asks no proxy for what is on its own loopback: there is this, and the registry behind it."""
    try:
        far_reader, far_writer = await asyncio.open_connection(registry.host, registry.port)
    except OSError as error:
        logger.warning("the registry %s does not answer: %s", registry, error)
        writer.close()
        return
    try:
        await _together(_relay(reader, far_writer), _relay(far_reader, writer))
    except (OSError, TimeoutError) as error:
        logger.debug("a connection to the registry ended: %s", error)
    finally:
        writer.close()
        far_writer.close()


async def _run(
    proxy: Proxy, listener: socket.socket, local: tuple[HostPattern, socket.socket] | None, engine: int, ready: Path
) -> None:
    """Serve clients, and the engine's way to the registry of this machine if there is one, until the engine ends."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(RESOLVERS))
    ended = asyncio.Event()
    watch = os.pidfd_open(engine)
    loop.add_reader(watch, ended.set)
    servers = [await asyncio.start_server(proxy.serve, sock=listener, limit=MAX_HEAD)]
    if local is not None:
        registry, door = local
        servers.append(
            await asyncio.start_server(lambda reader, writer: _to_registry(registry, reader, writer), sock=door)
        )
    ready.write_text(str(os.getpid()))
    await ended.wait()
    logger.info("the engine ended")
    for server in servers:
        server.close()


def main() -> None:
    """Serve until the engine ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="egress folder of the data folder")
    parser.add_argument("--engine", type=int, required=True, help="process of the engine")
    parser.add_argument("--ready", type=Path, required=True, help="file that gets our process number once we serve")
    parser.add_argument("--listen", required=True, help="address and port in the engine's namespace")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    os.chdir("/")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    address, _, port = given.listen.partition(":")
    listener = listen_beside(given.engine, address, int(port))
    policy = Policy(given.folder, (given.folder / TOKEN).read_text().strip())
    local = None
    registry = policy.registry
    if registry is not None and registry.port is not None and registry.host in ("localhost", "127.0.0.1"):
        local = registry, listen_beside(given.engine, "127.0.0.1", registry.port)
    asyncio.run(_run(Proxy(policy, Journal(given.folder)), listener, local, given.engine, given.ready))


if __name__ == "__main__":
    main()
