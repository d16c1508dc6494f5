"""The heads of what clients ask the proxy for, taken apart strictly: what is not clearly one request is refused.

Standard library only. Who may reach what is in policy.py.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from sandbox.egress.hosts import canonical, split_port

MAX_HEAD = 32_768
END = b"\r\n\r\n"
_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,30}) (\S{1,16384}) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
# They concern one connection and are not handed on.
_OF_CONNECTION = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"})


class BadRequest(Exception):
    """What came is no request that can be served; the text says why."""


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    host: str
    """Canonical."""
    port: int
    tunnel: bool
    """Whether bytes are to be carried both ways (CONNECT), and nothing of them understood."""
    path: str
    """Path and query on that host; empty for a tunnel."""
    headers: tuple[tuple[str, str], ...]
    user: str
    """Whom the client says it is; empty when it does not."""
    secret: str
    body_bytes: int | None
    """Length of the body that follows; None when it ends by itself (chunked)."""

    def forwarded(self, upstream_credentials: str | None = None) -> bytes:
        """The head as the host gets it, or as another proxy does (with its `Basic …` credentials, if any)."""
        named = {
            word.strip().lower() for name, value in self.headers if name == "connection" for word in value.split(",")
        }
        left_out = _OF_CONNECTION | named | {"host"}
        kept = [(name, value) for name, value in self.headers if name not in left_out and not name.startswith("proxy-")]
        target = self.path if upstream_credentials is None else f"http://{self.authority}{self.path}"
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {self.authority}"]
        lines += [f"{name}: {value}" for name, value in kept]
        if upstream_credentials:
            lines.append(f"Proxy-Authorization: {upstream_credentials}")
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")

    @property
    def authority(self) -> str:
        """Host and port, the port left out where it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 80 and not self.tunnel else f"{host}:{self.port}"


def parse_request(head: bytes) -> Request:
    """Understand the head of a request, its empty line included. Raises BadRequest."""
    lines = head.removesuffix(END).decode("latin-1").split("\r\n")
    if any(_UNFIT.search(line) for line in lines):
        raise BadRequest("a control character in the head")
    first = _LINE.fullmatch(lines[0])
    if first is None:
        raise BadRequest("no request line")
    method, target = first.groups()
    headers = tuple(_header(line) for line in lines[1:])
    try:
        host, port, path = _authority(target) if method == "CONNECT" else _absolute(target)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    user, secret = _credentials(headers)
    return Request(method, host, port, method == "CONNECT", path, headers, user, secret, _body_bytes(method, headers))


def closing_response(head: bytes) -> tuple[int, bytes]:
    """Status of an answer, and its head with the word that the connection ends after it. Raises BadRequest."""
    found = _STATUS.match(head)
    if found is None:
        raise BadRequest("the host's answer is not HTTP/1")
    status = int(found[1])
    lines = head.removesuffix(END).split(b"\r\n")
    if status >= 200:
        lines = [line for line in lines if line.partition(b":")[0].lower() not in (b"connection", b"keep-alive")]
        lines.append(b"Connection: close")
    return status, b"\r\n".join(lines) + END


def _authority(target: str) -> tuple[str, int, str]:
    host, port = split_port(target)
    if port is None:
        raise ValueError("CONNECT names no port")
    return canonical(host), port, ""


def _absolute(target: str) -> tuple[str, int, str]:
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() != "http":
        raise ValueError("only http:// addresses are fetched; others go through CONNECT")
    cut = re.search(r"[/?#]", rest)
    authority, path = (rest, "/") if cut is None else (rest[: cut.start()], rest[cut.start() :])
    if "@" in authority or "#" in path or "\\" in authority:
        raise ValueError("an address with a user or a fragment")
    host, port = split_port(authority)
    return canonical(host), port or 80, path if path.startswith("/") else f"/{path}"


def _header(line: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise BadRequest("a header that is none")
    return found[1].lower(), found[2]


def _credentials(headers: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """User and secret; two empty texts when none are given. Raises BadRequest."""
    given = [value for name, value in headers if name == "proxy-authorization"]
    if not given:
        return "", ""
    scheme, _, encoded = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "basic":
        raise BadRequest("credentials of another kind than Basic")
    try:
        user, _, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadRequest("credentials that cannot be read") from error
    return user, secret


def _body_bytes(method: str, headers: tuple[tuple[str, str], ...]) -> int | None:
    """Raises BadRequest where two readers of the head could see two different ends of the body."""
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise BadRequest("two lengths of one body")
    if method == "CONNECT" or not lengths + codings:
        return 0
    if codings:
        if codings != ["chunked"]:
            raise BadRequest("a transfer coding other than chunked")
        return None
    if not (lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 16):
        raise BadRequest("a length that is no number")
    return int(lengths[0])
