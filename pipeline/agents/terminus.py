"""An agent that types keys and reads a screen, with the protocol of Terminus-2, so that results compare with its.

One JSON object per answer: analysis, plan, commands, task_complete. A faulty answer is told its fault. Completion has
to be confirmed. When the context is full the model writes a summary, and goes on with that alone. The wording of the
prompts (terminus.md, terminus_summary.md) is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from pipeline.agents.calling import ask
from pipeline.agents.protocol import ContextFull
from pipeline.llm.answers import NoAnswer, object_of
from pipeline.llm.protocol import ChatModel, Message, Sampling
from pipeline.prompts import prompt
from pipeline.terminal_environment import BATCH, COLUMNS, ROWS, Keystrokes
from pipeline.types import Action, Interface, ModelCall, Step, TaskInstance

CONFIRM = (
    "You say that the task is complete. The state of the machine is judged as it is now, and nothing can be corrected "
    'afterwards. If that is right, answer with "task_complete": true again; if not, go on.'
)


class _Reply(BaseModel):
    """The answer; what else stands in it is passed over."""

    analysis: str = ""
    plan: str = ""
    commands: list[Keystrokes] = Field(default_factory=list)
    task_complete: bool = False


class TerminusAgent:
    """One model with one way of sampling."""

    name = "terminus"
    interface: Interface = "terminal"

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
        prompts = {f"{name}_sha256": prompt(name).sha256 for name in ("terminus", "terminus_summary")}
        return {**prompts, **self._model.details}

    def act(self, task: TaskInstance, history: Sequence[Step], observation: str) -> Action:
        """See Agent."""
        calls: list[ModelCall] = []
        try:
            completion, call = ask(self._model, [_messages(task, history, observation)], self._sampling)
        except ContextFull:
            if not history:
                raise
            calls.append(self._summary(task, history, observation))
            begun_anew = _messages(task, history, observation, summary=calls[0].answer)
            completion, call = ask(self._model, [begun_anew], self._sampling)
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
        if history and history[-1].extra.get("told") == CONFIRM:
            return Action(thought=thought, calls=tuple(calls))
        return Action(thought=thought, told=CONFIRM, calls=tuple(calls))

    def conversation(self, task: TaskInstance, history: Sequence[Step]) -> tuple[dict[str, str], ...]:
        """See Agent."""
        if not history:
            return ()
        # What the last answer brought was not answered any more.
        answered = _messages(task, history, "")[:-1]
        return tuple({"role": one.role, "content": one.content} for one in answered)

    def _summary(self, task: TaskInstance, history: Sequence[Step], observation: str) -> ModelCall:
        """What was done so far, in the words of the model. Raises ContextFull."""
        whole = _messages(task, history, observation)
        question = Message(role="user", content=prompt("terminus_summary").render(instruction=task.instruction))
        _, call = ask(self._model, _beginnings(whole, question), self._sampling)
        return call.model_copy(update={"purpose": "summary"})


def _beginnings(messages: Sequence[Message], question: Message) -> Iterator[list[Message]]:
    """The conversation, or as much of its beginning as it takes, with a question at its end."""
    turns = len(messages) // 2
    while turns > 0:
        turns = min(turns - 1, turns * 2 // 3)
        yield [*messages[: 2 * turns], question]


def _messages(
    task: TaskInstance, history: Sequence[Step], observation: str, *, summary: str | None = None
) -> list[Message]:
    """The conversation since the task was set, or since it was last summed up."""
    start = 0
    if summary is not None:
        start = len(history)
    else:
        for index, step in enumerate(history):
            for call in step.extra.get("calls", ()):
                if call.get("purpose") == "summary":
                    start, summary = index, call["answer"]
    seen = [*(step.observation for step in history), observation]
    so_far = f"What the engineer before you wrote:\n{summary}\n\n" if summary is not None else ""
    first = prompt("terminus").render(
        rows=str(ROWS), columns=str(COLUMNS), instruction=task.instruction, screen=so_far + seen[start]
    )
    messages = [Message(role="user", content=first)]
    for index in range(start, len(history)):
        messages.append(Message(role="assistant", content=_answer(history[index])))
        messages.append(Message(role="user", content=seen[index + 1]))
    return messages


def _answer(step: Step) -> str:
    """What the model said, word for word."""
    calls = step.extra.get("calls", ())
    return (calls[-1]["answer"] if calls else "") or "(no answer)"
