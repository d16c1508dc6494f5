"""What an answer of the hub says about its limits, and how long to wait for them.

Waits are measured by a clock that only goes forward; the hub's own two times (`Date` and reset) are only ever compared
with each other, so that neither a jump of this machine's clock nor a wrong one changes how long is waited.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Literal, Protocol

Resource = Literal["core", "search", "graphql"]

SECONDARY_S = 60.0
"""The least wait after a refusal that says neither when to come back nor why; doubled each time."""

REFUSALS = 6
"""So many refusals in a row, each waited for, mean that a limit does not reset."""

_WORDS = ("rate limit", "abuse detection", "too many requests")


class Clock(Protocol):
    """Time as the crawler needs it."""

    def monotonic(self) -> float:
        """Seconds of a clock that only goes forward."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class Budget:
    """One kind of request of one token."""

    ready_at: float = 0.0
    """Not before, by the clock that only goes forward."""
    refusals: int = 0
    """In a row."""
    waited_s: float = 0.0
    """For these refusals together."""

    def accepted(self, headers: Mapping[str, str], now: float) -> None:
        """An answer came; where it was the last one of the budget, the reset is waited for."""
        self.refusals, self.waited_s = 0, 0.0
        if headers.get("x-ratelimit-remaining") == "0" and (wait := until_reset(headers)) is not None:
            self.ready_at = now + wait

    def refused(self, headers: Mapping[str, str], now: float) -> None:
        """A refusal came."""
        wait = wait_after_refusal(headers, self.refusals)
        self.refusals += 1
        self.waited_s += wait
        self.ready_at = now + wait


@dataclass
class Budgets:
    """All kinds of requests of one token."""

    by_resource: dict[Resource, Budget] = field(default_factory=dict)

    def of(self, resource: Resource) -> Budget:
        return self.by_resource.setdefault(resource, Budget())


def is_refusal(status: int, headers: Mapping[str, str], data: object) -> bool:
    """Whether an answer is a limit, primary or secondary, and not about what was asked for."""
    if status == 429:
        return True
    if status == 403:
        message = str(data.get("message", "")).lower() if isinstance(data, Mapping) else ""
        exhausted = headers.get("x-ratelimit-remaining") == "0"
        return "retry-after" in headers or exhausted or any(words in message for words in _WORDS)
    if status == 200 and isinstance(data, Mapping) and isinstance(errors := data.get("errors"), list):
        return any(isinstance(error, Mapping) and error.get("type") == "RATE_LIMITED" for error in errors)
    return False


def wait_after_refusal(headers: Mapping[str, str], refusals: int) -> float:
    """Seconds to wait after a refusal that came after `refusals` others: as it says, else longer each time."""
    said = headers.get("retry-after", "")
    if said.isdigit():
        return max(float(said), 1.0)
    if headers.get("x-ratelimit-remaining") == "0" and (wait := until_reset(headers)) is not None:
        return wait
    return SECONDARY_S * 2.0**refusals


def until_reset(headers: Mapping[str, str]) -> float | None:
    """Seconds from the answer to the reset it names, one at least; None where it does not say both times."""
    try:
        reset = float(headers.get("x-ratelimit-reset", ""))
        now = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(reset):
        return None
    # A second more: the two times are whole seconds.
    return max(reset - now + 1.0, 1.0)
