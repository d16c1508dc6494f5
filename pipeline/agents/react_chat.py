"""The chat of thoughts, actions and observations (ReAct, Yao et al. 2023), in games and at the command line.

The prompts are react_game.md and react_terminal.md. How answers are understood is in react_answers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pipeline.agents.bash_chat import RECENT, cut, shortened
from pipeline.agents.react_answers import DONE, Answer, read
from pipeline.hierarchy.prompts import shown
from pipeline.llm.protocol import Completion, Message
from pipeline.prompts import fenced, prompt
from pipeline.types import Step, TaskInstance

PROMPTS = ("react_game", "react_terminal")
_NO_ANSWER_KEPT = 300
"""Characters of each end of an earlier answer without an action."""


def is_game(task: TaskInstance) -> bool:
    """Whether actions are those of a game, not commands of a shell."""
    return task.verifier.kind == "environment"


def read_for(task: TaskInstance, completion: Completion) -> Answer:
    """What was answered at this task."""
    return read(completion.text, shell=not is_game(task), cut=completion.finish_reason == "length")


def said(step: Step) -> str:
    """An earlier answer as the model reads it again: up to its action, since what it guessed behind is not true."""
    if not step.action and "told" in step.extra:
        return cut(step.thought, _NO_ANSWER_KEPT) or "(no answer)"
    thought = f"Thought: {step.thought}\n" if step.thought else ""
    action = step.action or DONE
    return f"{thought}Action:\n{fenced(action, 'bash')}" if "\n" in action else f"{thought}Action: {action}"


def messages(
    task: TaskInstance,
    history: Sequence[Step],
    observation: str,
    *,
    notes: str = "",
    begun: int = 0,
    kept: int | None = None,
    recent: int = RECENT,
) -> list[Message]:
    """The chat of the steps from number `begun` on, with `notes` behind the task.

    With `kept`, outputs older than the last `recent` turns are cut to so many characters at each end.
    """
    seen = [*(step.observation for step in history), observation]
    texts = []
    for index in range(begun, len(seen)):
        output = seen[index] if kept is None or index > len(history) - recent else cut(seen[index], kept)
        texts.append(shown(output, history[index - 1].exit_code if index else None).rstrip() or "(nothing)")
    first = prompt("react_game" if is_game(task) else "react_terminal").render(
        instruction=task.instruction, notes=f"\n\n{notes}" if notes else "", observation=texts[0]
    )
    found = [Message(role="user", content=first)]
    for step, text in zip(history[begun:], texts[1:], strict=True):
        found += [
            Message(role="assistant", content=said(step)),
            Message(role="user", content=text if "told" in step.extra else f"Observation: {text}"),
        ]
    return found


def forms(
    task: TaskInstance, history: Sequence[Step], observation: str, *, notes: str = "", begun: int = 0
) -> Iterator[list[Message]]:
    """The chat, then forms of it that leave more and more of old outputs out."""
    return shortened(partial(messages, task, history, notes=notes, begun=begun), observation)
