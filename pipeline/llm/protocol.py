"""What every language model promises: messages in, one completion out. Retries are behind it, prompts are not here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class ContextOverflow(PromptRefused):
    """The messages, with room for the answer, are longer than the context of the model. Fewer may be taken."""


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
    token_details: bool = False
    """Ask for token ids and log-probabilities of the answer, where the server gives them."""
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
    cached_tokens: int | None = None
    """Of the prompt tokens, those that the server had worked on before; None where it does not say."""
    seconds: float
    """Of the try that was answered: what the server failed at before it is no work of the model."""
    cost_usd: float | None = None
    """By the prices of the configuration; None without prices or counts."""
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Of each token of the answer, natural logarithm; None where they were not asked for or not given."""


class ChatModel(Protocol):
    """A language model that can be talked to. Safe to call from many threads."""

    @property
    def name(self) -> str:
        """Name stored on rows."""

    @property
    def details(self) -> Mapping[str, str]:
        """What tells this model from another one of its name: hash of the weights, serving program and version."""

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The answer to the last message.

        Raises ModelUnavailable for faults of the server and the network, after asking again with growing waits;
        ContextOverflow when the messages are too long, PromptRefused when they are at fault otherwise;
        ConfigurationError when the address, the key or the name of the model is.
        """
