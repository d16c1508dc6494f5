"""Any server that speaks OpenAI's chat API over HTTP: vLLM, llama.cpp, a hosted model.

Faults of the server and of the network are asked again with growing waits, so that nobody else has to. The key goes
into one header and nowhere else: neither into the log nor into an error. Servers are not started here.
"""

from __future__ import annotations

import ipaddress
import logging
import random
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from types import MappingProxyType

import httpx
from pydantic import Field, SecretStr, field_validator

from pipeline.errors import ConfigurationError
from pipeline.llm.chat_completions import Fault, completion
from pipeline.llm.pace import Pace
from pipeline.llm.protocol import (
    Completion,
    ContextOverflow,
    Message,
    ModelUnavailable,
    PromptRefused,
    Sampling,
)
from pipeline.schemas import clean_text
from pipeline.types import Record

logger = logging.getLogger(__name__)

_AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same request may be answered."""
_TOO_LONG = frozenset({400, 413, 422, 500})
"""Statuses that may mean that the messages are too long; llama.cpp says so with 500 when the answer fills the rest."""
_MOST_BYTES = 32 * 2**20
"""An answer that is longer is a fault of the server."""
_SHOWN = 300
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|size|window)|maximum context|exceeds? the (?:available )?context|too many tokens"
    r"|prompt is too long|longer than the model",
    re.IGNORECASE,
)
"""How servers say that the messages are too long; the status alone may mean anything."""


class OpenAIServerConfig(Record):
    """Where the model is and how patient to be. The key is not a setting: it would end up in files."""

    base_url: str
    """Address of the API without its last parts, e.g. `http://127.0.0.1:8000/v1`."""
    model: str = Field(min_length=1)
    """Name of the model as the server knows it."""
    timeout_s: float = Field(default=300.0, gt=0)
    """For one try, from the request to the last byte of the answer; each read of its headers has as long again."""
    tries: int = Field(default=5, gt=0)
    first_wait_s: float = Field(default=1.0, gt=0)
    """Between the first two tries; doubled for each further one."""
    longest_wait_s: float = Field(default=60.0, gt=0)
    """A server that asks for a longer wait is unavailable."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """So many at the most, tries included; None for as many as are asked."""
    usd_per_million_prompt_tokens: float | None = Field(default=None, ge=0)
    usd_per_million_cached_tokens: float | None = Field(default=None, ge=0)
    """Of the prompt tokens that the server had worked on before; None for the price of the others."""
    usd_per_million_completion_tokens: float | None = Field(default=None, ge=0)

    @field_validator("base_url")
    @classmethod
    def _address(cls, base_url: str) -> str:
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise ValueError(f"it is no address: {error}") from error
        if url.scheme not in {"http", "https"} or not url.host:
            raise ValueError("it is no address that begins with http:// or https://")
        if url.userinfo or url.query:
            raise ValueError("it must not hold a user, a password or a query; the key has a variable of its own")
        return base_url.rstrip("/")


class OpenAIServer:
    """A ChatModel on such a server."""

    def __init__(
        self,
        config: OpenAIServerConfig,
        api_key: SecretStr | None = None,
        *,
        details: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Nothing is asked yet. Raises ConfigurationError for a key that no header can carry."""
        self._config = config
        self._details = dict(details)
        self._pace = Pace(config.requests_per_minute)
        self._key = api_key.get_secret_value() if api_key else ""
        if not all("!" <= character <= "~" for character in self._key):
            # The HTTP library would say so too, and repeat the key.
            raise ConfigurationError("the key of the model holds spaces or characters that are no ASCII")
        # A proxy of this machine cannot reach the machine's own servers.
        self._client = httpx.Client(timeout=config.timeout_s, trust_env=not loopback(config.base_url))
        self._structured = True
        """Whether the server was not seen to refuse structured output."""

    @property
    def name(self) -> str:
        return self._config.model

    @property
    def details(self) -> Mapping[str, str]:
        """See ChatModel."""
        return self._details

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """See ChatModel."""
        request = {
            "model": self._config.model,
            "messages": [{"role": one.role, "content": clean_text(one.content)} for one in messages],
            **sampling.model_dump(exclude_none=True, exclude={"answer_schema", "token_details"}),
        }
        if sampling.token_details:
            # Without a number of alternatives llama.cpp gives twenty for each token.
            request |= {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}
        if sampling.answer_schema is not None and self._structured:
            schema = {"name": "answer", "schema": sampling.answer_schema}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        wait = self._config.first_wait_s
        for number in range(1, self._config.tries + 1):
            try:
                return self._ask(request)
            except Fault as fault:
                # Who was asked to wait for the same time does not come back in the same moment.
                pause = max(fault.wait_s + wait * random.uniform(0.0, 0.25), wait * random.uniform(0.75, 1.25))
                if number == self._config.tries or fault.wait_s > self._config.longest_wait_s:
                    raise ModelUnavailable(f"{self._place()}: {fault} ({number} tries)") from fault
                logger.info("%s: %s; asked again in %.1f s", self._place(), fault, pause)
                time.sleep(min(pause, self._config.longest_wait_s))
                wait *= 2
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _place(self) -> str:
        return f"model {self._config.model} at {self._config.base_url}"

    def _ask(self, request: dict[str, object]) -> Completion:
        self._pace.wait()
        began = time.monotonic()
        status, headers, body = self._post(request)
        if status == 200:
            try:
                return self._priced(completion(body, time.monotonic() - began))
            except Fault as fault:
                raise Fault(self._without_key(str(fault))) from None
        said = self._said(body)
        if status in _TOO_LONG and _OVERFLOW.search(said):
            raise ContextOverflow(f"{self._place()}: status {status}{said}")
        if status in _AGAIN or status >= 500:
            raise Fault(f"status {status}{said}", _retry_after(headers))
        if status in {401, 403}:
            # What such a server says often repeats a part of the key.
            raise ConfigurationError(f"{self._place()} refuses the key (status {status}); set the right one")
        if status in {400, 422} and "response_format" in request and b"response_format" in body:
            logger.info("%s knows no structured output%s", self._place(), said)
            self._structured = False
            return self._ask({name: value for name, value in request.items() if name != "response_format"})
        if status in {400, 413, 422}:
            raise PromptRefused(f"{self._place()}: status {status}{said}")
        raise ConfigurationError(
            f"{self._place()} answers with status {status}{said}; see to its base_url and the name of its model"
        )

    def _priced(self, completion: Completion) -> Completion:
        config = self._config
        prompt, written = completion.prompt_tokens, completion.completion_tokens
        price, price_written = config.usd_per_million_prompt_tokens, config.usd_per_million_completion_tokens
        if price is None or price_written is None or prompt is None or written is None:
            return completion
        cached = min(completion.cached_tokens or 0, prompt)
        price_cached = price if config.usd_per_million_cached_tokens is None else config.usd_per_million_cached_tokens
        cost = ((prompt - cached) * price + cached * price_cached + written * price_written) / 1e6
        return completion.model_copy(update={"cost_usd": cost})

    def _post(self, request: dict[str, object]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body. Raises Fault when there is no whole answer within the time."""
        until = time.monotonic() + self._config.timeout_s
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        body = bytearray()
        try:
            with self._client.stream(
                "POST", f"{self._config.base_url}/chat/completions", json=request, headers=headers
            ) as answer:
                for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        raise Fault(f"more than {_MOST_BYTES:,} bytes of answer")
                    if time.monotonic() > until:
                        raise Fault(f"no end of the answer within {self._config.timeout_s:g} s")
                return answer.status_code, answer.headers, bytes(body)
        except httpx.HTTPError as error:
            raise Fault(f"{type(error).__name__}: {error}") from error

    def _said(self, body: bytes) -> str:
        """The beginning of an error's text, without the key."""
        text = " ".join(body[:10_000].decode("utf-8", "replace").split())
        return f": {self._without_key(text)[:_SHOWN]}" if text else ""

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _retry_after(headers: httpx.Headers) -> float:
    """Seconds that the server asks to wait; 0 when it does not say, or says it in no known way."""
    value = headers.get("Retry-After", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def loopback(base_url: str) -> bool:
    """Whether an address is on this machine."""
    host = httpx.URL(base_url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
