"""What the hub refuses: budgets of each token and kind of request, tokens that are none, and faults on demand."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

MANY = 1_000_000_000


@dataclass
class Fault:
    """An answer that is given instead of the right one."""

    path: str
    """Pattern that is found in the path with its query."""
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    times: int = 1
    """So often; negative for ever."""
    token: str | None = None
    """Only for this token."""
    body: bytes | None = None
    """Sent as it is instead of a message."""


@dataclass
class Refusal:
    status: int
    message: str
    headers: dict[str, str]


@dataclass
class _Window:
    used: int = 0
    resets_at: float = 0.0


@dataclass
class Limits:
    """Budgets as [requests, seconds of the window] by kind of request."""

    budgets: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of `search`, `core` and `graphql`; a kind that is left out is not limited."""
    stuck: bool = False
    """A budget that is used up never comes back."""
    silent: bool = False
    """Refusals are 429 without any header that says when to come back."""
    tokens: frozenset[str] = frozenset({"one", "two", "three"})
    """Tokens that are known; all others are answered with 401."""
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._windows: dict[tuple[str, str], _Window] = {}
        self._lock = threading.Lock()

    def fault(self, path: str, token: str) -> Fault | None:
        """The fault that is due for this request, once less from now on."""
        with self._lock:
            for fault in self.faults:
                if re.search(fault.path, path) and fault.token in (None, token):
                    fault.times -= 1
                    if fault.times == 0:
                        self.faults.remove(fault)
                    return fault
        return None

    def take(self, token: str, resource: str, now: float) -> tuple[Refusal | None, dict[str, str]]:
        """Count one request. A refusal when the budget is used up, and the headers of every answer."""
        limit, window_s = self.budgets.get(resource, (MANY, 3600.0))
        with self._lock:
            window = self._windows.setdefault((token, resource), _Window(resets_at=now + window_s))
            if now >= window.resets_at:
                window.resets_at = now + window_s
                if not self.stuck:
                    window.used = 0
            refused = window.used >= limit
            window.used += not refused
            headers = self._headers(resource, limit, window)
        if not refused:
            return None, headers
        if self.silent:
            return Refusal(429, "too many requests", {}), {}
        return Refusal(403, "API rate limit exceeded for user ID 1.", headers), headers

    def give_back(self, token: str, resource: str) -> dict[str, str]:
        """An answer that costs nothing (304); its headers."""
        limit, _ = self.budgets.get(resource, (MANY, 3600.0))
        with self._lock:
            window = self._windows[token, resource]
            window.used -= 1
            return self._headers(resource, limit, window)

    def state(self, token: str, now: float) -> dict[str, dict[str, int]]:
        """As `/rate_limit` says it."""
        found = {}
        for resource in ("core", "search", "graphql"):
            limit, window_s = self.budgets.get(resource, (MANY, 3600.0))
            with self._lock:
                window = self._windows.get((token, resource), _Window(resets_at=now + window_s))
            found[resource] = {
                "limit": limit,
                "used": window.used,
                "remaining": limit - window.used,
                "reset": int(window.resets_at) + 1,
            }
        return found

    @staticmethod
    def _headers(resource: str, limit: int, window: _Window) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(limit - window.used),
            "X-RateLimit-Used": str(window.used),
            "X-RateLimit-Reset": str(int(window.resets_at) + 1),
            "X-RateLimit-Resource": resource,
        }
