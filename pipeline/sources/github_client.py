"""Requests to the hub's API through PyGithub: one instance and one limiter for each token, safe to use from threads.

PyGithub's own retries and throttle are off: they wait without a bound, and do not know of other tokens. An answer with
any status that is about what was asked for is an `Answer`; limits, faults of the server and tokens that died end here.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import requests
from github import Auth, Github
from pydantic import SecretStr

from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.sources.github_limits import REFUSALS, Budget, Budgets, Clock, Resource, SystemClock, is_refusal

logger = logging.getLogger(__name__)

TRIES = 6
"""Of a request that the server or the network fails, over half a minute."""

_TIMEOUT_S = 60
_PIECE_S = 1.0
"""Waits come in pieces: another token may be ready sooner than was thought, or the run may end."""


@dataclass(frozen=True)
class Answer:
    """What the API says; a redirect within the hub is followed."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    data: Any  # the JSON of a foreign server; who asks checks what it reads
    """None for an empty body."""

    @property
    def message(self) -> str:
        return str(self.data.get("message", "")) if isinstance(self.data, Mapping) else ""


@dataclass
class _Client:
    """One token."""

    number: int
    github: Github
    budgets: Budgets = field(default_factory=Budgets)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held during a request: PyGithub keeps the request on its connection, and the hub wants one at a time."""
    dead: bool = False


class HubClient:
    """Several tokens as one client."""

    def __init__(
        self,
        tokens: Sequence[SecretStr],
        base_url: str | None,
        *,
        remedy: str,
        max_wait_s: float,
        clock: Clock | None = None,
    ) -> None:
        """`remedy` says where tokens come from. Raises ConfigurationError without tokens or for a wrong address."""
        if not tokens:
            raise ConfigurationError(f"the github source needs a token; {remedy}")
        if base_url is not None and (
            urlsplit(base_url).scheme not in ("http", "https") or not urlsplit(base_url).netloc
        ):
            raise ConfigurationError(
                "sources.github.base_url is no address; give that of the API, e.g. https://hub.example.com/api/v3"
            )
        address: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
        self._clients = [
            _Client(
                number,
                Github(
                    auth=Auth.Token(token.get_secret_value()),
                    retry=0,
                    timeout=_TIMEOUT_S,
                    per_page=100,
                    seconds_between_requests=0,
                    seconds_between_writes=0,
                    user_agent="touchstone",
                    **address,
                ),
            )
            for number, token in enumerate(tokens, 1)
        ]
        self._remedy = remedy
        self._max_wait_s = max_wait_s
        self._clock = clock or SystemClock()
        self._turns = itertools.count()
        self.requests: Counter[Resource] = Counter()
        """Answers by kind, refusals and faults left out."""
        self._counting = threading.Lock()
        self._stopping = threading.Event()

    @contextmanager
    def pool(self, name: str) -> Iterator[ThreadPoolExecutor]:
        """One thread for each token. When the `with` ends with an error, no thread goes on waiting for a limit."""
        executor = ThreadPoolExecutor(self.width, thread_name_prefix=name)
        try:
            yield executor
        except BaseException:
            self._stopping.set()
            raise
        finally:
            executor.shutdown(cancel_futures=True)
            self._stopping.clear()

    @property
    def width(self) -> int:
        """So many requests at a time make sense."""
        return len(self._clients)

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None, *, etag: str | None = None) -> Answer:
        """With `etag`, the answer may be a 304 without data, which costs nothing.

        Raises ConfigurationError when no token is accepted any more, InfrastructureFailure when the server fails again
        and again, and when a limit does not reset within the bound.
        """
        resource: Resource = "search" if path.startswith("/search/") else "core"
        headers = {} if etag is None else {"If-None-Match": etag}
        return self._ask("GET", path, resource, dict(parameters or {}), headers, None)

    def graphql(self, query: str, variables: Mapping[str, object]) -> Answer:
        """The whole answer: `data` beside the errors of single nodes. Raises as `get` does."""
        path = self._clients[0].github.requester.graphql_url
        return self._ask("POST", path, "graphql", {}, {}, {"query": query, "variables": dict(variables)})

    def _ask(
        self,
        verb: Literal["GET", "POST"],
        path: str,
        resource: Resource,
        parameters: dict[str, str | int],
        headers: dict[str, str],
        body: dict[str, object] | None,
    ) -> Answer:
        faults = 0
        while True:
            client = self._ready(resource)
            with client.lock:
                budget = client.budgets.of(resource)
                if client.dead or budget.ready_at > self._clock.monotonic():
                    continue  # what another thread heard meanwhile
                answer = _sent(client.github, verb, path, parameters, headers, body)
                now = self._clock.monotonic()
                if answer.status == 401 or (answer.status == 403 and "suspended" in answer.message.lower()):
                    self._bury(client, f"is not accepted ({answer.status}: {answer.message})")
                elif is_refusal(answer.status, answer.headers, answer.data):
                    budget.refused(answer.headers, now)
                    if budget.refusals >= REFUSALS:
                        self._give_up(client, resource, budget)
                elif answer.status >= 500 or answer.status < 0:
                    faults += 1
                    if faults >= TRIES:
                        what = answer.message or f"status {answer.status}"
                        raise InfrastructureFailure(f"the hub failed {faults} times in a row at {path}: {what}")
                else:
                    budget.accepted(answer.headers, now)
                    with self._counting:
                        self.requests[resource] += 1
                    return answer
            if faults:
                self._clock.sleep(2.0 ** (faults - 1))

    def _ready(self, resource: Resource) -> _Client:
        """A token that may ask now; waits for one within the bound."""
        waited = 0.0
        while True:
            alive = [client for client in self._clients if not client.dead]
            if not alive:
                raise ConfigurationError(f"the hub accepts none of the tokens any more; {self._remedy}")
            turn = next(self._turns)
            # Among those that may ask, they take turns; one that is in the middle of a request comes last.
            client = min(
                alive,
                key=lambda one: (
                    max(one.budgets.of(resource).ready_at - self._clock.monotonic(), 0.0),
                    one.lock.locked(),
                    (one.number - turn) % len(self._clients),
                ),
            )
            wait = client.budgets.of(resource).ready_at - self._clock.monotonic()
            if wait <= 0:
                return client
            if waited + wait > self._max_wait_s:
                raise InfrastructureFailure(
                    f"the hub's limit for {resource} requests resets only in {wait:,.0f} s, and no more than "
                    f"{self._max_wait_s:,.0f} s are waited; run again later, raise sources.github.max_wait_s, or "
                    f"{self._remedy}"
                )
            if waited == 0.0:
                logger.info("waiting %.0f s for the hub's limit of %s requests", wait, resource)
            if self._stopping.is_set():
                raise InfrastructureFailure("the run ends while a limit of the hub is waited for")
            piece = min(wait, _PIECE_S)
            self._clock.sleep(piece)
            waited += piece

    def _give_up(self, client: _Client, resource: Resource, budget: Budget) -> None:
        """A token whose limit does not reset. Raises InfrastructureFailure when it is the last one."""
        what = f"was refused {budget.refusals} times in a row, over {budget.waited_s:,.0f} s of waiting"
        if any(not one.dead for one in self._clients if one is not client):
            self._bury(client, what)
            return
        raise InfrastructureFailure(
            f"the hub's limit for {resource} requests does not reset: token {client.number} {what}; check the token at "
            f"the hub, or {self._remedy}"
        )

    def _bury(self, client: _Client, what: str) -> None:
        client.dead = True
        left = sum(not one.dead for one in self._clients)
        logger.warning("token %d %s; %d left", client.number, what, left)


def _sent(
    github: Github,
    verb: str,
    path: str,
    parameters: dict[str, str | int],
    headers: dict[str, str],
    body: dict[str, object] | None,
) -> Answer:
    """One request. What never reached the hub, or came back as no JSON, has the status -1."""
    try:
        status, found, text = github.requester.requestJson(verb, path, dict(parameters), dict(headers), body)
    except requests.RequestException as error:
        return Answer(-1, {}, {"message": f"it cannot be reached ({type(error).__name__})"})
    except RuntimeError as error:
        # PyGithub's way to say that a redirect leads to another host, where the token must not go.
        logger.warning("a redirect was not followed: %s", error)
        return Answer(301, {}, {"message": "moved to another host"})
    except (ValueError, OverflowError):
        # PyGithub reads the headers of limits as numbers, whatever a proxy made of them.
        return Answer(-1, {}, {"message": "the headers of its answer cannot be read"})
    try:
        return Answer(status, found, json.loads(text) if text else None)
    except ValueError:
        # A proxy's page or an answer that was cut.
        return Answer(status if status >= 400 else -1, found, {"message": "the answer is no JSON"})
