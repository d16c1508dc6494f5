"""An agent without thoughts: the model reads all that was seen and done as a chat, and its answer is the action.

The "Act" baseline of ReAct (Yao et al. 2023), and what a model that was trained on gold paths of games is: the chat is
the one that they are published in (game_chat.py). On a terminal the answer is the command, so that `bash` serves models
that are used to talk better there.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.calling import ask
from pipeline.agents.game_chat import PROMPTS, messages, said_in
from pipeline.agents.modelled import ModelledAgent
from pipeline.llm.protocol import Message
from pipeline.types import Action, Interface, Step, TaskInstance

NOTHING_SAID = "[no action] Your answer is empty. Answer with your next action."
CUT = "[no action] Your answer was cut off and not carried out: be shorter."


class ActAgent(ModelledAgent):
    """One model with one way of sampling."""

    name = "act"
    interface: Interface = "shell"
    prompts = PROMPTS

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        completion, call = ask(self._model, [messages(task, history, observation)], self._sampling)
        said = completion.text.strip()
        if not said or completion.finish_reason == "length":
            return Action(thought=said, told=CUT if said else NOTHING_SAID, calls=(call,))
        return Action(command=said, calls=(call,))

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """See Agent."""
        if not history:
            return ()
        last = history[-1]
        chat = [*messages(task, history[:-1], last.observation), Message(role="assistant", content=said_in(last))]
        return tuple({"role": one.role, "content": one.content} for one in chat)
