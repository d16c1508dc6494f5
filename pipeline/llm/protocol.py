"""What every language model promises: messages in, one completion out. Retries are behind it, prompts are not here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from pydantic import Field

from pipeline.errors import InfrastructureFailure, PipelineError
from pipeline.types import Record


class ModelUnavailable(InfrastructureFailure):
    """The server or the network failed, and did so again when asked again. It says nothing of what was asked."""


class PromptRefused(PipelineError):
    """The server works and will not take these messages, for instance since they are too long for the model.

    Asking the same again gives the same.
    """


class Message(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Record):
    """How the next tokens are chosen; the defaults are the likeliest ones."""

    temperature: float = Field(default=0.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    max_tokens: int = Field(default=2048, gt=0)
    """Most tokens of the answer."""
    seed: int | None = None
    """Repeats an answer only on a server that works on one request at a time."""
    answer_schema: dict[str, Any] | None = None
    """JSON schema of the answer. A server that knows structured output keeps to it; others answer as they like, so
    that an answer is read as carefully as any other (answers.py)."""


class Completion(Record):
    """What a model answered."""

    text: str
    finish_reason: Literal["stop", "length", "other"]
    """`length`: the text ends where `max_tokens` or the context of the model did."""
    model: str
    """The model as the server names it."""
    prompt_tokens: int | None
    """None where the server does not count."""
    completion_tokens: int | None
    seconds: float
    """From the first try to the answer, waits between tries included."""


class ChatModel(Protocol):
    """A language model that can be talked to. Safe to call from many threads."""

    @property
    def name(self) -> str:
        """Name stored on rows."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The answer to the last message.

        Raises ModelUnavailable for faults of the server and the network, after asking again with growing waits;
        PromptRefused when the messages are at fault; ConfigurationError when the address, the key or the name of the
        model is.
        """
