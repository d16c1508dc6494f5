"""How agents act that think aloud over the whole history: one question, one thought, one action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.agents.bash_chat import ended
from pipeline.agents.calling import ask, sent
from pipeline.agents.modelled import ModelledAgent
from pipeline.agents.react_answers import DONE
from pipeline.agents.react_chat import forms, is_game, read_for, said
from pipeline.llm.protocol import Message
from pipeline.types import Action, Interface, Step, TaskInstance


class ReactingAgent(ModelledAgent):
    """One model with one way of sampling."""

    interface: Interface = "shell"
    notes = ""
    """What is read behind the task."""

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        completion, call = ask(self._model, self._forms(task, history, observation), self._sampling)
        answer = read_for(task, completion)
        if answer.action is None:
            return Action(thought=answer.thought, told=answer.told, calls=(call,))
        if answer.action == DONE and not is_game(task):
            return Action(thought=answer.thought, calls=(call,))
        return Action(thought=answer.thought, command=answer.action, calls=(call,))

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """See Agent."""
        if not history:
            return ()
        last = history[-1]
        return ended(sent(self._forms(task, history[:-1], last.observation), last), said(last))

    def _forms(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Iterator[list[Message]]:
        return forms(task, history, observation, notes=self.notes)
