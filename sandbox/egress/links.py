"""Connections out of this machine, to addresses that were looked at first. Standard library only.

A name is resolved once, and the connection goes to the address that was judged: no second answer of a name server can
lead anywhere else. Where this machine itself has to use a proxy, connections go through that one.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import socket
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from sandbox.egress.heads import END, MAX_HEAD, Request
from sandbox.egress.hosts import is_never_reached, is_private

logger = logging.getLogger(__name__)

RESOLVE_TIMEOUT_S = 20.0
# Only asked to be sure: the other proxy resolves names itself, and this machine may have no name server at all.
DOUBT_TIMEOUT_S = 3.0
CONNECT_TIMEOUT_S = 15.0


class NotReached(Exception):
    """No connection; `outcome` is what the event says."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


@dataclass(frozen=True)
class Upstream:
    """A proxy that this machine has to use."""

    host: str
    port: int
    credentials: str
    """`Basic …`, empty when it wants none."""


@dataclass(frozen=True)
class Link:
    """One open connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    upstream: Upstream | None = None
    """The proxy at the other end of it, which is told the whole address; None for the host itself or a tunnel to it."""


@dataclass(frozen=True)
class Rights:
    """Which addresses a host may have."""

    private: bool = False
    any: bool = False
    """This machine's own ones included."""


async def connect(request: Request, rights: Rights, upstreams: dict[str, Upstream]) -> Link:
    """A connection for a request, through this machine's proxy where it has one. Raises NotReached."""
    upstream = upstreams.get("https" if request.tunnel else "http")
    if upstream is None or rights.any or proxy_bypass(request.host):
        return await _open(await _addresses(request, rights, RESOLVE_TIMEOUT_S), request.port)
    try:
        await _addresses(request, rights, DOUBT_TIMEOUT_S)
    except NotReached as error:
        if error.outcome == "refused":
            raise
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    except (OSError, TimeoutError) as error:
        raise NotReached("unreachable", f"the proxy of this machine does not answer ({error})") from error
    if not request.tunnel:
        return Link(reader, writer, upstream)
    try:
        await _tunnel(reader, writer, request, upstream)
    except BaseException:
        writer.close()
        raise
    return Link(reader, writer)


def upstreams_of_environment() -> dict[str, Upstream]:
    """The proxies that this machine's environment names, for `http` and `https`. Those of another kind are left out."""
    found = {}
    for scheme, address in getproxies().items():
        if scheme not in ("http", "https") or not address:
            continue
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if parts.scheme != "http" or not parts.hostname:
            logger.error("the %s proxy of this machine is no http:// proxy and is not used", scheme)
            continue
        credentials = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            credentials = f"Basic {base64.b64encode(pair.encode()).decode()}"
        found[scheme] = Upstream(parts.hostname, parts.port or 80, credentials)
    return found


async def _addresses(request: Request, rights: Rights, timeout_s: float) -> list[str]:
    """The addresses of the host that may be reached. Raises NotReached: unresolved, or refused when there is none."""
    try:
        async with asyncio.timeout(timeout_s):
            answers = await asyncio.get_running_loop().getaddrinfo(request.host, request.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise NotReached("unresolved", f"{request.host} has no address ({error or 'no answer'})") from error
    addresses = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    fit = addresses if rights.any else [one for one in addresses if _is_fit(one, rights)]
    if not fit:
        raise NotReached("refused", f"{request.host} is at an address that nobody may reach from here")
    return fit


def _is_fit(address: str, rights: Rights) -> bool:
    if is_never_reached(address) or _is_own(address):
        return False
    return rights.private or not is_private(address)


def _is_own(address: str) -> bool:
    """Whether an address is this machine's: only those can be bound."""
    family = socket.AF_INET6 if ipaddress.ip_address(address.partition("%")[0]).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


async def _open(addresses: list[str], port: int) -> Link:
    why: object = "no address"
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return Link(*await asyncio.open_connection(address, port))
        except (OSError, TimeoutError) as error:
            why = error or f"no answer within {CONNECT_TIMEOUT_S:g} s"
    raise NotReached("unreachable", f"no connection to port {port} ({why})")


async def _tunnel(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request, upstream: Upstream
) -> None:
    lines = [f"CONNECT {request.authority} HTTP/1.1", f"Host: {request.authority}"]
    lines += [f"Proxy-Authorization: {upstream.credentials}"] if upstream.credentials else []
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(4 * CONNECT_TIMEOUT_S):
            await writer.drain()
            head = await reader.readuntil(END)
    except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
        raise NotReached("unreachable", f"the proxy of this machine did not answer ({error})") from error
    if len(head) > MAX_HEAD or head.split(b" ")[1:2] != [b"200"]:
        said = head.split(b"\r\n")[0][:100].decode(errors="replace")
        raise NotReached("unreachable", f"the proxy of this machine said {said!r}")
