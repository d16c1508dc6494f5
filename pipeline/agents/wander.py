"""An agent that knows the way and strays from it: attempts with slips, some of which fail, without a model.

What is learned from experts alone never sees a rejected action or a way back. Each slip is drawn from the seed, the
task and the step, so that the same attempt can be made again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeline.agents.fixed import FixedAgent
from pipeline.types import Action, Step, TaskInstance

ON_PATH = "on_path"
"""In `Step.extra`: the action was the next one of the reference solution."""
_KEEPS_ON = 0.75
"""Chance of the next action of the solution."""
_OUT_OF_TURN = 0.85
"""Up to here another action of the solution."""
_AGAIN = 0.95
"""Up to here the last action once more; beyond it words that are no action."""


class WanderingAgent(FixedAgent):
    """Carries out the reference solution with slips, then hands in."""

    name = "wander"
    details: Mapping[str, str] = MappingProxyType({"source": "wander"})

    def __init__(self, seed: int) -> None:
        self.sampling: Mapping[str, Any] = {"seed": seed}

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        del observation
        done = sum(bool(step.extra.get(ON_PATH)) for step in history)
        if done >= len(task.solution):
            return Action()
        draw = random.Random(f"{self.sampling['seed']} {task.instance_id} {len(history)}")
        chance = draw.random()
        if chance < _KEEPS_ON or not history:
            return Action(command=task.solution[done], extra={ON_PATH: True})
        if chance < _OUT_OF_TURN:
            return Action(command=draw.choice(task.solution))
        if chance < _AGAIN and history[-1].action:
            return Action(command=history[-1].action)
        return Action(command="hmm, let me think")
