"""Other machines that do the work of a stage, as a stage sees them; cluster.py has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, runtime_checkable

from pipeline.batch import Outcome

T = TypeVar("T")
Found = TypeVar("Found")

Near = Callable[[T], str | None]
"""Name of the machine that alone has what an item needs, None when any will do. A machine that is gone is no such."""


@runtime_checkable
class Machines(Protocol):
    """Several machines, each of which has all that work needs. Safe for several threads."""

    def slots(self) -> int:
        """Items that they work on at a time, all together, at the moment; at least 1."""

    def spread(self, work: Callable[[T], Outcome], near: Near[T]) -> AbstractContextManager[Callable[[T], Outcome]]:
        """What does `work` on one of them, wherever a slot is free, and waits for it; to be called from threads.

        It raises what `work` raises: ItemRejected, SandboxUnavailable, InfrastructureFailure and ConfigurationError as
        they are, anything else as FailedElsewhere. Work whose machine is lost is done on another one; after some
        losses it is an InfrastructureFailure. Work that goes on when the context ends is broken off.
        """

    def everywhere(self, call: Callable[[], Found]) -> Mapping[str, Found]:
        """What `call` gives on each machine, by its name; without those that are lost meanwhile. Raises as above."""
