"""An agent that types keys and reads a screen, with the protocol of Terminus-2, so that results compare with its.

One JSON object per answer: analysis, plan, commands, task_complete. A faulty answer is told its fault. Completion has
to be confirmed; keys that come with it are typed first. When the context is full the model writes a summary, and goes
on with that alone. The wording of the prompts (terminus.md, terminus_summary.md) is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from pipeline.agents.calling import ask, sent
from pipeline.agents.modelled import ModelledAgent
from pipeline.agents.protocol import ContextFull
from pipeline.llm.answers import NoAnswer, object_of, plain
from pipeline.llm.protocol import Message
from pipeline.prompts import prompt
from pipeline.schemas import clean_text
from pipeline.terminal_environment import BATCH, COLUMNS, ROWS, Keystrokes
from pipeline.types import Action, Interface, ModelCall, Step, TaskInstance

CONFIRM = (
    "You say that the task is complete. The state of the machine is judged as it is now, and nothing can be corrected "
    'afterwards. If that is right, answer with "task_complete": true again; if not, go on.'
)
_COMPLETE = re.compile(r'"task_complete"\s*:\s*"?true', re.IGNORECASE)
_SCREENS = (None, 1000, 200)
"""How much of each end of the screen a conversation begins with that follows a summary; None for all of it."""

_Text = Annotated[str, AfterValidator(clean_text)]


class _Reply(BaseModel):
    """The answer; what else stands in it is passed over."""

    analysis: _Text
    plan: _Text
    commands: list[Keystrokes] = Field(default_factory=list)
    task_complete: bool = False

    @model_validator(mode="after")
    def _acts(self) -> Self:
        # Part of an answer that cannot be read as a whole is no wish to do nothing.
        if "commands" not in self.model_fields_set and not self.task_complete:
            raise ValueError("there are no commands")
        return self


class TerminusAgent(ModelledAgent):
    """One model with one way of sampling."""

    name = "terminus"
    interface: Interface = "terminal"
    prompts = ("terminus", "terminus_summary")

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        if history and _says_complete(history[-1]) and _is_asked(history[:-1]):
            return Action()
        calls: list[ModelCall] = []
        try:
            completion, call = ask(self._model, [_messages(task, history, observation)], self._sampling)
        except ContextFull:
            if not history:
                raise
            calls.append(self._summary(task, history, observation))
            begun_anew = _openings(task, calls[0].answer, observation)
            completion, call = ask(self._model, begun_anew, self._sampling)
        calls.append(call)
        try:
            reply = object_of(completion.text, _Reply)
        except NoAnswer as fault:
            cut = " It was cut off: be shorter." if completion.finish_reason == "length" else ""
            told = f"Your answer could not be read: {fault}.{cut} Answer with the one JSON object that was described."
            return Action(told=told, calls=tuple(calls))
        thought = "\n".join(part for part in (reply.analysis, reply.plan) if part)
        if reply.commands or not reply.task_complete:
            # Nothing to type is a look at the screen.
            batch = tuple(reply.commands) or (Keystrokes(keystrokes=""),)
            return Action(thought=thought, command=BATCH.dump_json(batch).decode(), calls=tuple(calls))
        if _is_asked(history):
            return Action(thought=thought, calls=tuple(calls))
        return Action(thought=thought, told=CONFIRM, calls=tuple(calls))

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """See Agent."""
        asked = [step for step in history if step.extra.get("calls")]
        if not asked:
            return ()
        # What the last answer brought was not answered any more.
        answered = _messages(task, history[: history.index(asked[-1]) + 1], "")[:-1]
        return tuple({"role": one.role, "content": one.content} for one in answered)

    def _summary(self, task: TaskInstance, history: Sequence[Step], observation: str) -> ModelCall:
        """What was done so far, in the words of the model. Raises ContextFull."""
        _, call = ask(self._model, _beginnings(task, history, observation), self._sampling)
        return call.model_copy(update={"purpose": "summary"})


def _is_asked(history: Sequence[Step]) -> bool:
    """Whether the model reads the question for confirmation now."""
    return bool(history) and (history[-1].extra.get("told") == CONFIRM or _says_complete(history[-1]))


def _says_complete(step: Step) -> bool:
    """Whether keys were typed with which the model said that the task is complete."""
    calls = step.extra.get("calls", ())
    if not step.action or not calls or not _COMPLETE.search(calls[-1]["answer"]):
        return False
    return object_of(calls[-1]["answer"], _Reply).task_complete


def _beginnings(task: TaskInstance, history: Sequence[Step], observation: str) -> Iterator[list[Message]]:
    """The conversation, or as much of its beginning as it takes, with the request to sum it up at its end."""
    question = prompt("terminus_summary").render(instruction=task.instruction)
    messages = _messages(task, history, observation)
    turns = len(messages) // 2
    while turns > 1:
        turns = min(turns - 1, turns * 2 // 3)
        yield [*messages[: 2 * turns], Message(role="user", content=question)]
    _, summary = _last_summary(history)
    yield [Message(role="user", content=_after(summary) + question)]


def _openings(task: TaskInstance, summary: str | None, screen: str) -> Iterator[list[Message]]:
    """A conversation that begins, with less and less of the screen."""
    for kept in _SCREENS:
        shown = screen if kept is None or len(screen) <= 2 * kept else f"{screen[:kept]}\n[…]\n{screen[-kept:]}"
        content = prompt("terminus").render(
            rows=str(ROWS), columns=str(COLUMNS), instruction=task.instruction, screen=_after(summary) + shown
        )
        yield [Message(role="user", content=content)]


def _after(summary: str | None) -> str:
    return f"What the engineer before you wrote:\n{plain(summary).strip()}\n\n" if summary is not None else ""


def _last_summary(history: Sequence[Step]) -> tuple[int, str | None]:
    """The step that began with it, and the summary; (0, None) when there is none."""
    for index in range(len(history) - 1, -1, -1):
        for call in history[index].extra.get("calls", ()):
            if call.get("purpose") == "summary":
                return index, call["answer"]
    return 0, None


def _messages(task: TaskInstance, history: Sequence[Step], observation: str) -> list[Message]:
    """The conversation since the task was set, or since it was last summed up."""
    start, summary = _last_summary(history)
    seen = [*(step.observation for step in history), observation]
    openings = _openings(task, summary, seen[start])
    messages = list(next(openings) if summary is None else sent(openings, history[start]))
    for index in range(start, len(history)):
        messages.append(Message(role="assistant", content=_answer(history[index])))
        question = f"\n\n{CONFIRM}" if _says_complete(history[index]) else ""
        messages.append(Message(role="user", content=seen[index + 1] + question))
    return messages


def _answer(step: Step) -> str:
    """What the model said, word for word."""
    calls = step.extra.get("calls", ())
    return (calls[-1]["answer"] if calls else "") or "(no answer)"
