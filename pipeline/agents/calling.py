"""How agents ask their model: one question, recorded so that it can be told apart and paid for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from pipeline.agents.protocol import ContextFull
from pipeline.llm.protocol import ChatModel, Completion, ContextOverflow, Message, Sampling
from pipeline.types import ModelCall


def ask(
    model: ChatModel, conversations: Iterable[Sequence[Message]], sampling: Sampling
) -> tuple[Completion, ModelCall]:
    """Ask with the first of `conversations` (longest first) that the model's context holds.

    Raises ContextFull when it holds none, and what ChatModel raises otherwise.
    """
    overflow: ContextOverflow | None = None
    for messages in conversations:
        try:
            completion = model.complete(messages, sampling)
        except ContextOverflow as error:
            overflow = error
            continue
        return completion, _record(messages, completion)
    raise ContextFull(str(overflow)) from overflow


def _record(messages: Sequence[Message], completion: Completion) -> ModelCall:
    text = json.dumps([[m.role, m.content] for m in messages], ensure_ascii=False)
    return ModelCall(
        prompt_sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        answer=completion.text,
        **completion.model_dump(exclude={"text"}),
    )
