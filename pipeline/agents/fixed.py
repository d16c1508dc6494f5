"""What agents that ask no model have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeline.types import Interface, Step, TaskInstance


class FixedAgent:
    """An agent in a shell that always does the same."""

    interface: Interface = "shell"
    model: str | None = None
    sampling: Mapping[str, Any] = MappingProxyType({})
    details: Mapping[str, str] = MappingProxyType({})

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """None took place."""
        del task, history
        return ()
