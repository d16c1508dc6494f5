"""Binds the simulated hub to a port of the loopback interface."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit
from wsgiref.handlers import format_date_time

from tests.github_server.git_http import GitHttp
from tests.github_server.graphql import graphql
from tests.github_server.limits import Limits
from tests.github_server.rest import Answer, Rest, answer, refused
from tests.github_server.world import World

PREFIX = "/api/v3"
GRAPHQL = "/api/graphql"


class GithubServer(ThreadingHTTPServer):
    """One world behind one port. Use it in a `with` of `running`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, world: World, limits: Limits, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.base_url = self.address + PREFIX
        self.world = world
        self.world.address = self.address
        self.limits = limits
        self.rest = Rest(world, self.address, PREFIX)
        self.git = GitHttp(world, folder)
        self.requests: deque[tuple[str, str, int]] = deque(maxlen=10_000)
        """Method, path with its query, and status of the last ones."""
        self.counts: Counter[str] = Counter()
        """Requests by kind, those that were refused left out."""
        self.secrets_seen: set[str] = set()
        """Authorizations that git sent."""
        self.serving = threading.Event()
        """While it is not set, git gets no answer."""
        self.serving.set()
        self._started = time.monotonic()
        self.skew_s = 0.0
        """So many seconds the clock of the answers is ahead of the world's."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A crawler that is killed breaks its connections; anything else is a fault of this server."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def now(self) -> float:
        return self.world.now + time.monotonic() - self._started + self.skew_s


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `requests` instead."""

    def do_GET(self) -> None:
        self._answer(self._api if self.path.startswith("/api/") else self._git)

    def do_POST(self) -> None:
        self._answer(self._api if self.path.startswith("/api/") else self._git)

    @property
    def hub(self) -> GithubServer:
        return cast("GithubServer", self.server)

    def _answer(self, respond: Callable[[bytes], Answer]) -> None:
        given = respond(self._body())
        self.hub.requests.append((self.command, self.path, given.status))
        self.send_response_only(given.status)
        self.send_header("Date", format_date_time(self.hub.now()))
        for name, value in {"Content-Type": "application/json; charset=utf-8", **given.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(given.body)))
        self.end_headers()
        if given.status != 304:
            self.wfile.write(given.body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _git(self, body: bytes) -> Answer:
        self.hub.counts["git"] += 1
        self.hub.serving.wait(30)
        if (secret := self.headers.get("Authorization")) is not None:
            self.hub.secrets_seen.add(secret)
        if (fault := self.hub.limits.fault(self.path, "")) is not None:
            return Answer(fault.status, fault.body or fault.message.encode(), fault.headers)
        split = urlsplit(self.path)
        headers = dict(self.headers.items())
        return self.hub.git.serve(self.command, unquote(split.path), split.query, headers, body)

    def _api(self, body: bytes) -> Answer:
        hub = self.hub
        split = urlsplit(self.path)
        token = (self.headers.get("Authorization") or "").rpartition(" ")[2]
        if token not in hub.limits.tokens:
            return refused(401, "Bad credentials")
        if not self.headers.get("User-Agent"):
            return refused(403, "Missing or invalid User Agent string.")
        path = unquote(split.path.removeprefix(PREFIX))
        if path == "/rate_limit":
            state = hub.limits.state(token, hub.now())
            return answer(200, {"resources": state, "rate": state["core"]})
        if (fault := hub.limits.fault(unquote(self.path), token)) is not None:
            data = json.dumps({"message": fault.message}).encode() if fault.body is None else fault.body
            return Answer(fault.status, data, fault.headers)
        resource = {GRAPHQL: "graphql"}.get(split.path, "search" if path.startswith("/search/") else "core")
        refusal, headers = hub.limits.take(token, resource, hub.now())
        if refusal is not None:
            return answer(refusal.status, {"message": refusal.message}, refusal.headers)
        hub.counts[resource] += 1
        if resource == "graphql":
            given = graphql(hub.world, json.loads(body))
        else:
            given = self._conditional(hub.rest.get(path, dict(parse_qsl(split.query))), token, resource)
        return Answer(given.status, given.body, {**headers, **given.headers})

    def _conditional(self, given: Answer, token: str, resource: str) -> Answer:
        """304 for who knows the answer already."""
        if given.status != 200 or resource == "search":
            return given
        etag = f'W/"{hashlib.sha256(given.body).hexdigest()}"'
        headers = {**given.headers, "ETag": etag}
        if self.headers.get("If-None-Match") != etag:
            return Answer(200, given.body, headers)
        self.hub.counts["not_modified"] += 1
        return Answer(304, b"", {**headers, **self.hub.limits.give_back(token, resource)})


@contextmanager
def running(world: World, limits: Limits | None = None) -> Iterator[GithubServer]:
    """The hub while the `with` lasts, in threads of this process."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = GithubServer(world, limits or Limits(), Path(folder))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
