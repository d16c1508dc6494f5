"""Reads the body of a chat completion as servers send it; fields that one of them adds are passed over."""

from __future__ import annotations

import json
from typing import Annotated, NoReturn

from pydantic import BaseModel, Field, ValidationError

from pipeline.llm.protocol import Completion
from pipeline.schemas import clean_text

_SHOWN = 300


class Fault(Exception):
    """One try came to nothing through no fault of ours; `wait_s` is what the server asks to wait."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


_Count = Annotated[int, Field(ge=0, lt=2**31)]


class _PromptDetails(BaseModel):
    cached_tokens: _Count | None = None


class _Usage(BaseModel):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Answer(BaseModel):
    content: str | None = None


class _Token(BaseModel):
    logprob: float
    id: int | None = None


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Choice(BaseModel):
    message: _Answer
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _Body(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None


def completion(body: bytes, seconds: float) -> Completion:
    """What a body says. Raises Fault for one that is no chat completion, e.g. since it was cut off."""
    try:
        # pydantic's own parser refuses half a character, of which an answer that was cut may consist.
        found = _Body.model_validate(json.loads(body.decode("utf-8", "replace"), parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        shown = body[:_SHOWN].decode("utf-8", "replace")
        raise Fault(f"no chat completion ({_faults(error)}): {shown}") from error
    choice, usage = found.choices[0], found.usage or _Usage()
    finish = choice.finish_reason
    logprobs = choice.logprobs.content if choice.logprobs is not None else None
    if logprobs and logprobs[0].id is not None and usage.completion_tokens not in {None, len(logprobs)}:
        # llama.cpp leaves out tokens that are parts of one character: what is left is no answer that was given.
        logprobs = None
    return Completion(
        text=clean_text(choice.message.content or ""),
        finish_reason="stop" if finish == "stop" else "length" if finish == "length" else "other",
        model=clean_text(found.model or ""),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None,
        seconds=seconds,
        prompt_token_ids=_tuple(found.prompt_token_ids),
        completion_token_ids=_tuple(choice.token_ids) or _ids(logprobs or []),
        logprobs=tuple(token.logprob for token in logprobs) if logprobs is not None else None,
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _faults(error: ValueError | RecursionError) -> str:
    """What is wrong, without the body."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}"
    return f"no JSON: {str(error)[:100]}"


def _ids(tokens: list[_Token]) -> tuple[int, ...] | None:
    """Some servers give them beside the probabilities."""
    ids = tuple(token.id for token in tokens if token.id is not None)
    return ids if ids and len(ids) == len(tokens) else None


def _tuple(ids: list[int] | None) -> tuple[int, ...] | None:
    return tuple(ids) if ids is not None else None
