"""How agents ask that read no history: one user message per question, in forms that show less and less of long texts.

Such an agent finds what it works on in `Step.extra` of what it did before, and has no chat: each of its prompts stands
alone. Its row is published like one of an agent without a model, in the words of bash_chat.py or game_chat.py: that is
what learners of whole conversations want of it. What its policies answered is in the calls of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from pipeline.agents.bash_chat import cut
from pipeline.agents.calling import ask
from pipeline.agents.modelled import ModelledAgent
from pipeline.hierarchy.prompts import shown
from pipeline.llm.protocol import ChatModel, Message, Sampling
from pipeline.types import Interface, ModelCall, Step, TaskInstance

Shortened = Callable[[str], str]
"""What is done to each text of a prompt that may be long."""
_KEPT = (1_200, 300)
"""Characters of each end of such texts when the context of the model does not hold them."""


class SingleStepAgent(ModelledAgent):
    """One way of sampling, and one model for all policies, or models of their own."""

    def __init__(self, model: ChatModel, sampling: Sampling, policies: Mapping[str, ChatModel] | None = None) -> None:
        """`policies`: the models of calls by their purpose, where it is not `model`."""
        super().__init__(model, sampling)
        self._policies = dict(policies or {})

    interface: Interface = "shell"

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """None took place."""
        del task, history
        return ()

    def _ask(
        self, render: Callable[[Shortened], str], purpose: Literal["decision", "plan", "progress"]
    ) -> tuple[str, ModelCall]:
        """The answer and its record. Raises ContextFull, and what ChatModel raises otherwise."""
        completion, call = ask(self._policies.get(purpose, self._model), _forms(render), self._sampling)
        return completion.text, call.model_copy(update={"purpose": purpose})


def seen(history: Sequence[Step], observation: str) -> str:
    """What the policies read of `observation`, which the last action of `history` brought."""
    return shown(observation, history[-1].exit_code if history else None)


def latest_group(history: Sequence[Step]) -> Sequence[Step]:
    """The steps since the planner was asked last: those of the sub-goal that was worked on last."""
    start = len(history) - 1
    while start > 0 and not history[start - 1].extra.get("finished"):
        start -= 1
    return history[max(start, 0) :]


def _forms(render: Callable[[Shortened], str]) -> Iterator[list[Message]]:
    yield [Message(role="user", content=render(str))]
    for kept in _KEPT:
        yield [Message(role="user", content=render(partial(cut, kept=kept)))]
