"""The agent of Reflexion: ReAct that reads behind the task what it wrote down after failed tries.

Shinn et al. 2023, "Reflexion: Language Agents with Verbal Reinforcement Learning". Who tries again, and what is written
down, is in pipeline/reflexion.py; without that this is a first try, alike that of `react`. The questions to which the
notes are the answers are paid by the try that reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.bash_chat import cut
from pipeline.agents.react_chat import PROMPTS
from pipeline.agents.reacting import ReactingAgent
from pipeline.llm.answers import plain
from pipeline.llm.protocol import ChatModel, Sampling
from pipeline.prompts import prompt
from pipeline.types import Action, ModelCall, Step, TaskInstance

CRITIQUE = "reflexion_critique"
"""The prompt after a failed try."""
MEMORY = 3
"""Notes that are read: the latest ones, as in the paper."""
_KEPT = 400
"""Characters of each end of a note."""


class ReflexionAgent(ReactingAgent):
    """One model with one way of sampling, in one try."""

    name = "reflexion"
    prompts = (*PROMPTS, "reflexion_notes", CRITIQUE)

    def __init__(self, model: ChatModel, sampling: Sampling, critiques: Sequence[ModelCall] = ()) -> None:
        """`critiques`: one after each earlier try, in their order."""
        super().__init__(model, sampling)
        self._critiques = tuple(critiques)
        self._read = [text for text in map(noted, critiques) if text][-MEMORY:]
        if self._read:
            self.notes = prompt("reflexion_notes").render(critiques="\n".join(f"- {text}" for text in self._read))

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent. `extra` of the first step of a later try keeps its number, from 0, and what was read."""
        action = super().act(task, history, observation)
        if history or not self._critiques:
            return action
        told = {"try": len(self._critiques), "critiques": self._read}
        calls = (self._critiques[-1], *action.calls)
        return action.model_copy(update={"calls": calls, "extra": action.extra | told})


def noted(critique: ModelCall) -> str:
    """What is read of it later, in one line; empty where nothing was said."""
    return cut(" ".join(plain(critique.answer).split()), _KEPT).replace("\n", " ")
