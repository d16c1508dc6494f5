"""What was asked of the proxy and what came of it: one JSON line each, in files of bounded size.

Standard library only. Written by the proxy; drivers read it to tell a dead host from a machine without a network.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

EVENTS = "events.jsonl"
MAX_BYTES = 16 << 20
# A build that asks without end may not push what others did out of the files.
MAX_PER_CLIENT = 2_000
MAX_CLIENTS = 10_000
REACHED = ("ok", "status")


@dataclass(frozen=True)
class Event:
    """One request."""

    time: str
    """ISO 8601, UTC, seconds."""
    who: str
    """User name that the client gave; empty when none."""
    host: str
    port: int
    outcome: str
    """`ok`; `refused` (not on the allow-list, or at an address that nobody may reach); `unresolved`; `unreachable`;
    `status` (the host answered a plain HTTP request with an error)."""
    status: int = 0
    """HTTP status of the answer; 0 where only bytes were carried."""


class Journal:
    """Writes events."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = folder / EVENTS
        self._max_bytes = max_bytes
        self._file = self._path.open("a", buffering=1)
        self._count: Counter[str] = Counter()

    def write(self, who: str, host: str, port: int, outcome: str, status: int = 0) -> None:
        """Add one event; those of a client that had its share are left out."""
        if len(self._count) >= MAX_CLIENTS:
            self._count.clear()
        self._count[who] += 1
        if self._count[who] > MAX_PER_CLIENT:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.write(json.dumps(asdict(Event(now, who, host, port, outcome, status))) + "\n")
        if self._file.tell() > self._max_bytes:
            self._file.close()
            os.replace(self._path, _older(self._path))
            self._file = self._path.open("a", buffering=1)


def read_events(folder: Path) -> Iterator[Event]:
    """All events that are kept, oldest first. A line that was not written to its end is passed over."""
    path = folder / EVENTS
    for file in (_older(path), path):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            try:
                yield Event(**json.loads(line))
            except (ValueError, TypeError):
                continue


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")
