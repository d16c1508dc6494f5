"""The contract of an agent: from a task and what happened so far to the next action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipeline.types import Action, Step, TaskInstance


class Agent(Protocol):
    """Decides; keeps no state between calls, so that one object serves many attempts at a time."""

    @property
    def name(self) -> str:
        """Name stored on trajectories."""

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """The next action. `observation` is what the last action of `history` brought (empty at the start).

        An action without a command hands the task in. Raises nothing of its own: a model that cannot be reached
        raises the error of its ChatModel.
        """
