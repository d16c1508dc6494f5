"""An agent that answers with one command per turn, in a block of Markdown, and sees its output and exit code.

The prompts are bash_task.md and bash_result.md. An answer without a command is told so and costs a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.agents.calling import ask
from pipeline.llm.answers import blocks, plain
from pipeline.llm.protocol import ChatModel, Message, Sampling
from pipeline.prompts import prompt
from pipeline.types import Action, Interface, Step, TaskInstance

SHELLS = {"bash", "sh", "shell", "console", "shell-session", "zsh", ""}
_DONE = re.compile(r"^\W*DONE\W*$", re.MULTILINE)
_KEPT = 300
"""Characters of each end of an old output when the context is full."""
_RECENT = 2
"""Turns that are never cut."""
NO_COMMAND = (
    "[no command] Your answer has no ```bash block. Answer with one block that holds the next command, or with the "
    "single word DONE when the task is done."
)


class BashAgent:
    """One model with one way of sampling."""

    name = "bash"
    interface: Interface = "shell"

    def __init__(self, model: ChatModel, sampling: Sampling) -> None:
        self._model = model
        self._sampling = sampling

    @property
    def model(self) -> str | None:
        return self._model.name

    @property
    def sampling(self) -> Mapping[str, Any]:
        return self._sampling.model_dump(exclude_none=True, exclude={"token_details"})

    @property
    def details(self) -> Mapping[str, str]:
        prompts = {f"{name}_sha256": prompt(name).sha256 for name in ("bash_task", "bash_result")}
        return {**prompts, **self._model.details}

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        completion, call = ask(self._model, _shorter_and_shorter(task, history, observation), self._sampling)
        thought, command, done = read(completion.text)
        if command is not None:
            return Action(thought=thought, command=command, calls=(call,))
        if done:
            return Action(thought=thought, calls=(call,))
        cut = " It was cut off: be shorter." if completion.finish_reason == "length" else ""
        return Action(thought=thought, told=NO_COMMAND + cut, calls=(call,))

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """See Agent."""
        if not history:
            return ()
        last = history[-1]
        before = _messages(task, history[:-1], last.observation)
        return (
            *({"role": one.role, "content": one.content} for one in before),
            {"role": "assistant", "content": _said(last)},
        )


def read(answer: str) -> tuple[str, str | None, bool]:
    """(thought, command or None, whether the answer hands in). What stands behind the first command is not read."""
    text = plain(answer)
    found = [block for block in blocks(answer) if block.language in SHELLS and block.text.strip()]
    if found:
        thought = "\n".join(text.split("\n")[: found[0].line]).strip()
        command = "\n".join(line.removeprefix("$ ") for line in found[0].text.strip("\n").split("\n"))
        if _DONE.fullmatch(command.strip()):
            return thought, None, True
        return thought, command, False
    return _DONE.sub("", text).strip(), None, _DONE.search(text) is not None


def _said(step: Step) -> str:
    """An earlier answer as the model reads it again: up to its command, since what it guessed behind is not true."""
    thought = f"{step.thought}\n\n" if step.thought else ""
    if step.action:
        return f"{thought}```bash\n{step.action}\n```"
    return (step.thought or "(no answer)") if "told" in step.extra else f"{thought}DONE"


def _messages(
    task: TaskInstance, history: Sequence[Step], observation: str, *, kept: int | None = None, recent: int = _RECENT
) -> list[Message]:
    """The chat; with `kept`, outputs older than the last `recent` turns are cut to so many characters at each end."""
    found = [Message(role="user", content=prompt("bash_task").render(instruction=task.instruction))]
    seen = [*(step.observation for step in history[1:]), observation]
    for index, step in enumerate(history):
        found.append(Message(role="assistant", content=_said(step)))
        output = seen[index]
        if kept is not None and index < len(history) - recent:
            output = _cut(output, kept)
        found.append(Message(role="user", content=_result(step, output)))
    return found


def _result(step: Step, output: str) -> str:
    if not step.action:
        return output
    status = f"exit code {step.exit_code}" if step.exit_code is not None else "stopped"
    # Small models hand in whatever happened when they are always reminded that they may.
    may_end = "\nIf the task is done, answer DONE." if step.exit_code == 0 else ""
    return prompt("bash_result").render(status=status, output=output.rstrip() or "(no output)", may_end=may_end)


def _shorter_and_shorter(task: TaskInstance, history: Sequence[Step], observation: str) -> Iterator[list[Message]]:
    """The chat, then forms of it that leave more and more of old outputs out, last of the newest one too."""
    yield _messages(task, history, observation)
    yield _messages(task, history, observation, kept=_KEPT)
    yield _messages(task, history, observation, kept=0)
    yield _messages(task, history, _cut(observation, 4 * _KEPT), kept=0, recent=1)
    whole = _messages(task, history, _cut(observation, _KEPT), kept=0, recent=1)
    yield [whole[0], *whole[-5:]] if len(whole) > 6 else whole


def _cut(text: str, kept: int) -> str:
    if len(text) <= 2 * kept + 40:
        return text
    tail = text[len(text) - kept :]
    return f"{text[:kept]}\n[{len(text) - 2 * kept} characters left out]\n{tail}"
