"""The agent that does nothing: a verifier that passes it is worth nothing."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.fixed import FixedAgent
from pipeline.types import Action, Step, TaskInstance


class NoopAgent(FixedAgent):
    """Hands in at once."""

    name = "noop"

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        del task, history, observation
        return Action()
