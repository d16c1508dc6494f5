"""How an attempt in a game reads as a chat: the task with what is seen first, then actions and what each brought.

Attempts of agents without a model are published in these words.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.llm.protocol import Message
from pipeline.prompts import prompt
from pipeline.types import Step, TaskInstance

PROMPTS = ("game_task",)


def messages(task: TaskInstance, history: Sequence[Step], observation: str) -> list[Message]:
    """What is read before the next action; `observation` is what the last one of `history` brought."""
    seen = [*(step.observation for step in history), observation]
    first = prompt("game_task").render(instruction=task.instruction, observation=seen[0])
    found = [Message(role="user", content=first)]
    for step, observed in zip(history, seen[1:], strict=True):
        found += [Message(role="assistant", content=said_in(step)), Message(role="user", content=observed)]
    return found


def said_in(step: Step) -> str:
    """The action, or the words that were none."""
    return step.action or step.thought


def game_chat(task: TaskInstance, steps: Sequence[Step]) -> tuple[dict[str, str], ...]:
    """The chat (role, content) behind these steps, the last action at its end; handing in says nothing there.

    Empty without an action.
    """
    acted = [step for step in steps if step.action]
    if not acted:
        return ()
    chat = [*messages(task, acted[:-1], acted[-1].observation), Message(role="assistant", content=acted[-1].action)]
    return tuple({"role": one.role, "content": one.content} for one in chat)
