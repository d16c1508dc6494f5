"""The chat of the agent `bash`: what its model reads at each turn, and how an attempt reads as a whole.

The prompts are bash_task.md and bash_result.md. Attempts of agents without a model are published in the same words, so
that whoever learns from them has read what the agent will read. How answers are understood is in bash_answers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

from pipeline.llm.protocol import Message
from pipeline.prompts import fenced, prompt
from pipeline.types import Step, TaskInstance

PROMPTS = ("bash_task", "bash_result")
_KEPT = 300
"""Characters of each end of an old output when the context is full."""
RECENT = 2
"""Turns that are never cut."""


def said(step: Step) -> str:
    """An earlier answer as the model reads it again: up to its command, since what it guessed behind is not true."""
    thought = f"{step.thought}\n\n" if step.thought else ""
    if step.action:
        return thought + fenced(step.action, "bash")
    return (step.thought or "(no answer)") if "told" in step.extra else f"{thought}DONE"


def messages(
    task: TaskInstance, history: Sequence[Step], observation: str, *, kept: int | None = None, recent: int = RECENT
) -> list[Message]:
    """The chat; with `kept`, outputs older than the last `recent` turns are cut to so many characters at each end."""
    found = [Message(role="user", content=prompt("bash_task").render(instruction=task.instruction))]
    seen = [*(step.observation for step in history[1:]), observation]
    for index, step in enumerate(history):
        found.append(Message(role="assistant", content=said(step)))
        output = seen[index]
        if kept is not None and index < len(history) - recent:
            output = cut(output, kept)
        found.append(Message(role="user", content=_result(step, output)))
    return found


def ended(before: Sequence[Message], answer: str) -> tuple[dict[str, str], ...]:
    """A chat (role, content) with the last answer behind it."""
    chat = [*before, Message(role="assistant", content=answer)]
    return tuple({"role": one.role, "content": one.content} for one in chat)


def chat_of(task: TaskInstance, steps: Sequence[Step]) -> tuple[dict[str, str], ...]:
    """The chat of an agent that did `steps`, nothing cut: user and assistant in turn, the assistant last.

    Whatever decided on them, each answer is what the agent would have said, each result what it would have read. Empty
    without a step.
    """
    return ended(messages(task, steps[:-1], steps[-1].observation), said(steps[-1])) if steps else ()


def _result(step: Step, output: str) -> str:
    if not step.action:
        return output
    status = f"exit code {step.exit_code}" if step.exit_code is not None else "stopped"
    # Small models hand in whatever happened when they are always reminded that they may.
    may_end = "\nIf the task is done, answer DONE." if step.exit_code == 0 else ""
    return prompt("bash_result").render(status=status, output=output.rstrip() or "(no output)", may_end=may_end)


def shorter_and_shorter(task: TaskInstance, history: Sequence[Step], observation: str) -> Iterator[list[Message]]:
    """The chat, then forms of it that leave more and more of old outputs out, last of the newest one too."""
    return shortened(partial(messages, task, history), observation)


class Chat(Protocol):
    """Writes a chat as `messages` does."""

    def __call__(self, observation: str, *, kept: int | None = None, recent: int = RECENT) -> list[Message]: ...


def shortened(chat: Chat, observation: str) -> Iterator[list[Message]]:
    """A chat, and its shorter forms."""
    yield chat(observation)
    yield chat(observation, kept=_KEPT)
    yield chat(observation, kept=0)
    yield chat(cut(observation, 4 * _KEPT), kept=0, recent=1)
    whole = chat(cut(observation, _KEPT), kept=0, recent=1)
    yield [whole[0], *whole[-4:]] if len(whole) > 5 else whole


def cut(text: str, kept: int) -> str:
    """So many characters of each end, with a note of how many are left out; a text that is hardly longer stays."""
    if len(text) <= 2 * kept + 40:
        return text
    tail = text[len(text) - kept :]
    return f"{text[:kept]}\n[{len(text) - 2 * kept} characters left out]\n{tail}"
