"""Conditions that an honest verdict does not depend on, made by request: the order of the tests, and their clock.

Runs inside a sandbox with the trusted interpreter, next to verifier_runner.py, and imports nothing of ours. The clock
of programs under test is not moved: they may be linked with any C library.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

READ_NOW = ("localtime", "gmtime", "ctime")


def arrange(items: list[pytest.Item], order: str, seed: int) -> None:
    """Bring the tests into the order that is asked for."""
    if order == "reversed":
        items.reverse()
    elif order == "shuffled":
        items.sort(key=lambda item: hashlib.sha256(f"{seed} {item.nodeid}".encode()).digest())


def move_clock(offset_s: int) -> None:
    """From now on everything in this process that asks Python for the time is told one that is off by so much."""
    if not offset_s:
        return
    wall = {time.CLOCK_REALTIME, time.CLOCK_TAI}
    now, now_ns, of_clock, of_clock_ns = time.time, time.time_ns, time.clock_gettime, time.clock_gettime_ns
    text, as_text = time.strftime, time.asctime
    moved: dict[str, Callable[..., Any]] = {
        "time": lambda: now() + offset_s,
        "time_ns": lambda: now_ns() + offset_s * 10**9,
        "clock_gettime": lambda clock: of_clock(clock) + (offset_s if clock in wall else 0),
        "clock_gettime_ns": lambda clock: of_clock_ns(clock) + (offset_s * 10**9 if clock in wall else 0),
        "strftime": lambda form, at=None: text(form, time.localtime() if at is None else at),
        "asctime": lambda at=None: as_text(time.localtime() if at is None else at),
        **{name: _at_moved(getattr(time, name)) for name in READ_NOW},
    }
    vars(time).update(moved)
    _read_dates_by_python()


def _at_moved(real: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda seconds=None: real(time.time() if seconds is None else seconds)


def _read_dates_by_python() -> None:
    """The modules of dates in their Python versions, which ask the module of time; those in C ask the kernel."""
    before = sys.modules.pop("datetime", None)
    sys.modules.pop("_strptime", None)
    for name in ("_datetime", "_zoneinfo"):
        sys.modules[name] = None  # type: ignore[assignment]
    after = importlib.import_module("datetime")
    for module in list(sys.modules.values()):
        if before is not None and getattr(module, "__dict__", {}).get("datetime") is before:
            vars(module)["datetime"] = after
