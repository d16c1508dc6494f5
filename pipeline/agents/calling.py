"""How agents ask their model: one question, recorded so that it can be told apart and paid for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from pipeline.agents.protocol import ContextFull
from pipeline.llm.protocol import ChatModel, Completion, ContextOverflow, Message, Sampling
from pipeline.schemas import clean_text
from pipeline.types import ModelCall, Step


def ask(
    model: ChatModel, conversations: Iterable[Sequence[Message]], sampling: Sampling
) -> tuple[Completion, ModelCall]:
    """Ask with the first of `conversations` (longest first) that the model's context holds.

    Raises ContextFull when it holds none, and what ChatModel raises otherwise.
    """
    overflow: ContextOverflow | None = None
    tried: Sequence[Message] | None = None
    for messages in conversations:
        if messages == tried:
            continue
        tried = messages
        try:
            completion = model.complete(messages, sampling)
        except ContextOverflow as error:
            overflow = error
            continue
        readable = completion.model_copy(update={"text": clean_text(completion.text)})
        return readable, _record(messages, readable)
    raise ContextFull(str(overflow)) from overflow


def prompt_sha256(messages: Sequence[Message]) -> str:
    """Names the messages of a call."""
    text = json.dumps([[m.role, m.content] for m in messages], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sent(conversations: Iterable[Sequence[Message]], step: Step) -> Sequence[Message]:
    """The one of `conversations` that the model decided on in `step`; the first when none is known to be it."""
    calls = step.extra.get("calls", ())
    wanted = calls[-1]["prompt_sha256"] if calls else None
    first: Sequence[Message] | None = None
    for messages in conversations:
        if prompt_sha256(messages) == wanted:
            return messages
        first = messages if first is None else first
    return first or ()


def _record(messages: Sequence[Message], completion: Completion) -> ModelCall:
    return ModelCall(
        prompt_sha256=prompt_sha256(messages),
        answer=completion.text,
        **completion.model_dump(exclude={"text"}),
    )
