"""Keeps many threads together under a number of requests per minute."""

from __future__ import annotations

import threading
import time


class Pace:
    """Gives each request the next free moment, evenly spread; no burst is saved up."""

    def __init__(self, per_minute: float | None) -> None:
        self._gap_s = 60.0 / per_minute if per_minute is not None else 0.0
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        """Return when the next request may be sent."""
        if not self._gap_s:
            return
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._gap_s
        time.sleep(at - now)
