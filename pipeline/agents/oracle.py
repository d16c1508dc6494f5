"""The agent that carries out the reference solution: shows that a task can be solved and its verifier can be passed."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.fixed import FixedAgent
from pipeline.types import Action, Step, TaskInstance


class OracleAgent(FixedAgent):
    """One command of the solution per turn, then hands in, whatever the commands answered."""

    name = "oracle"

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        del observation
        return Action(command=task.solution[len(history)]) if len(history) < len(task.solution) else Action()
