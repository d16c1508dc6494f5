"""Which machine takes the next item: one with a free slot, the one that has what the item needs, none that is failing.

Not here: what the machines are and how work gets there (cluster.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

REST_S = 0.5
"""How long a machine that failed gets no new item; doubled for each further failure in a row."""
MOST_REST_S = 60.0


class NoMachine(Exception):
    """There was no machine at all for as long as one was waited for."""


@dataclass
class _Machine:
    slots: int
    used: int = 0
    faults: int = 0
    """In a row."""
    rests_until: float = 0.0


class Slots:
    """The slots of all machines. Safe for several threads."""

    def __init__(self) -> None:
        self._machines: dict[str, _Machine] = {}
        self._gone: dict[str, _Machine] = {}
        self._changed = threading.Condition()

    def total(self) -> int:
        """Of all machines, taken and free."""
        with self._changed:
            return sum(one.slots for one in self._machines.values())

    def there(self, slots: Mapping[str, int]) -> None:
        """From now on these machines are there, with so many slots; one that comes back is as it was."""
        with self._changed:
            for name in set(self._machines) - set(slots):
                self._gone[name] = self._machines.pop(name)
            for name, count in slots.items():
                known = self._machines.get(name) or self._gone.pop(name, None) or _Machine(count)
                known.slots = count
                self._machines[name] = known
            self._changed.notify_all()

    def lost(self, name: str) -> None:
        """A machine is not there any more, until `there` says that it is."""
        with self._changed:
            if name in self._machines:
                self._fault(self._machines[name])
                self._gone[name] = self._machines.pop(name)
            self._changed.notify_all()

    def failed(self, name: str) -> None:
        """What was done there broke for a reason that another machine may not have."""
        with self._changed:
            if name in self._machines:
                self._fault(self._machines[name])
            self._changed.notify_all()

    def worked(self, name: str) -> None:
        """What was done there did not break for such a reason."""
        with self._changed:
            if (one := self._machines.get(name)) is not None:
                one.faults, one.rests_until = 0, 0.0

    @contextmanager
    def take(self, near: str | None, patience_s: float) -> Iterator[str]:
        """Wait for a slot and hold it: of `near` while that machine is there, else of the one with most of them free.

        Raises NoMachine when there was none for `patience_s`.
        """
        name, one = self._wait(near, patience_s)
        try:
            yield name
        finally:
            with self._changed:
                one.used -= 1
                self._changed.notify_all()

    def _wait(self, near: str | None, patience_s: float) -> tuple[str, _Machine]:
        deserted = time.monotonic()
        with self._changed:
            while True:
                now = time.monotonic()
                if self._machines:
                    deserted = now
                elif now - deserted >= patience_s:
                    raise NoMachine(f"no machine was there for {patience_s:g} s")
                if (name := self._free(near, now)) is not None:
                    one = self._machines[name]
                    one.used += 1
                    return name, one
                self._changed.wait(self._until(now))

    def _free(self, near: str | None, now: float) -> str | None:
        wanted = [near] if near in self._machines else list(self._machines)
        free = {
            name: one.slots - one.used
            for name in wanted
            if name is not None and (one := self._machines[name]).rests_until <= now and one.used < one.slots
        }
        return max(free, key=lambda name: free[name]) if free else None

    def _until(self, now: float) -> float:
        """Seconds until a rest ends, at most 1: somebody has to look whether there is any machine at all."""
        rests = [one.rests_until - now for one in self._machines.values() if one.rests_until > now]
        return min([1.0, *rests])

    @staticmethod
    def _fault(one: _Machine) -> None:
        now = time.monotonic()
        if one.rests_until > now:
            return  # what else was at work there breaks for the same reason
        one.faults += 1
        one.rests_until = now + min(MOST_REST_S, REST_S * 2 ** min(one.faults - 1, 16))
