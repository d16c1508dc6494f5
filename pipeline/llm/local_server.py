"""A model on this machine, without a GPU or a key: a GGUF file in a process of its own that speaks OpenAI's API.

The process (local_process.py) is apart from ours, so that a crash of the engine is an answer that did not come, and it
ends with ours, however that one ends. It is started when the first answer is wanted, and again after it died. Which
weights there are is in weights.py; for many requests at once a server of its own is better (infra/serve.sh).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import httpx
from pydantic import Field

from pipeline.errors import ConfigurationError
from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import Completion, Message, ModelUnavailable, Sampling
from pipeline.llm.weights import INSTALL, Weights
from pipeline.types import Record

logger = logging.getLogger(__name__)

ENGINE = "xllamacpp"
_PROCESS = Path(__file__).with_name("local_process.py")
_CACHE_MB = 256
"""Memory for prompts that were worked on before, besides the one in each slot: the engine's own default is 8 GB."""
_TRIES = 2
"""Of one request: a faulty connection, or a process that died, is tried again once."""
_TAIL = 2_000
"""Bytes of the engine's log that an error repeats."""


class LocalModelConfig(Record):
    """Which weights, and what they may use of this machine."""

    local: str = Field(min_length=1)
    """`smollm2`, or the path of a GGUF file, relative to the configuration file."""
    adapter: str | None = None
    """Path of a LoRA adapter as a GGUF file, relative to the configuration file, which is added to the weights, or
    NAME@VERSION of a model that was trained here and has an adapter; None for the weights as they are."""
    context: int = Field(default=8192, ge=512)
    """Tokens of prompt and answer together."""
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 1) - 1), gt=0)
    """By default all cores but one, which the commands of the agents need."""
    slots: int = Field(default=1, gt=0)
    """Requests worked on at a time. A seed repeats its text with one of them only, and only when as much of the prompt
    was worked on before: rounding follows how a prompt was cut into batches."""
    timeout_s: float = Field(default=600.0, gt=0)
    """For one answer, the wait for a slot included."""
    start_timeout_s: float = Field(default=300.0, gt=0)
    """Until the weights are loaded."""


class ServerFailed(Exception):
    """The process ended, or did not answer; the text has the end of its log."""


class LocalServer:
    """The process that serves some weights, all of its answers with the adapter if there is one."""

    def __init__(self, weights: Weights, config: LocalModelConfig, adapter: Weights | None = None) -> None:
        """Starts it and returns when it answers. Raises ServerFailed."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lasts as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROCESS), _settings(weights, config, adapter)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C in a terminal is for the program that asks: what it still needs must go on.
            start_new_session=True,
        )
        try:
            self.address = self._address(config.start_timeout_s)
            self.facts = self._facts(weights, config, adapter)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def log_tail(self) -> str:
        """How it ended, and the end of what the engine said."""
        size = os.fstat(self._log.fileno()).st_size
        said = os.pread(self._log.fileno(), _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace").strip()
        status = self._process.poll()
        return f"{'it runs' if status is None else f'exit status {status}'}; its log ends with:\n{said or '(nothing)'}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _address(self, timeout_s: float) -> str:
        assert self._process.stdout is not None
        late = threading.Timer(timeout_s, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline().decode().strip()
        finally:
            late.cancel()
        if line:
            return line
        self._process.wait()
        raise ServerFailed(f"it was not ready within {timeout_s:g} s, or could not start; {self.log_tail()}")

    def _facts(self, weights: Weights, config: LocalModelConfig, adapter: Weights | None) -> dict[str, str]:
        try:
            answer = httpx.get(f"{self.address}/props", timeout=30.0, trust_env=False).raise_for_status().json()
            template, quantisation = str(answer["chat_template"]), str(answer["model_ftype"])
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise ServerFailed(f"it does not answer ({error}); {self.log_tail()}") from error
        added = {} if adapter is None else {"adapter": adapter.path.name, "adapter_sha256": adapter.sha256}
        return {
            "weights": weights.path.name,
            "weights_sha256": weights.sha256,
            **added,
            "quantisation": quantisation,
            "template_sha256": hashlib.sha256(template.encode()).hexdigest(),
            "engine": f"{ENGINE} {importlib.metadata.version(ENGINE)}",
            "context": str(config.context),
            "slots": str(config.slots),
        }


class LocalModel:
    """A ChatModel over such a process. The process begins with the first question and lasts as long as this object."""

    def __init__(self, weights: Weights, config: LocalModelConfig, adapter: Weights | None = None) -> None:
        """Raises ConfigurationError where the engine is not installed."""
        try:
            importlib.metadata.version(ENGINE)
        except importlib.metadata.PackageNotFoundError as error:
            raise ConfigurationError(f"[model] local: the package {ENGINE} is missing; {INSTALL}") from error
        self._weights = weights
        self._adapter = adapter
        self._config = config
        self._lock = threading.Lock()
        self._running: tuple[LocalServer, OpenAIServer] | None = None

    @property
    def name(self) -> str:
        return _name(self._weights, self._adapter)

    @property
    def details(self) -> Mapping[str, str]:
        """See ChatModel. Some of it only the engine knows, which is started for it."""
        return self._served()[0].facts

    def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """See ChatModel. Raises ConfigurationError when the engine cannot load the weights."""
        for number in range(1, _TRIES + 1):
            process, server = self._served()
            try:
                return server.complete(messages, sampling)
            except ModelUnavailable as error:
                if process.alive or number == _TRIES:
                    raise ModelUnavailable(f"{error}; the local server: {process.log_tail()}") from error
                logger.warning("the local model %s died and is started again: %s", self.name, process.log_tail())
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._running is not None:
                process, server = self._running
                server.close()
                process.close()
            self._running = None

    def _served(self) -> tuple[LocalServer, OpenAIServer]:
        """The process that answers, started where there is none."""
        with self._lock:
            if self._running is None or not self._running[0].alive:
                again = self._running is not None
                try:
                    process = LocalServer(self._weights, self._config, self._adapter)
                except ServerFailed as error:
                    adapter = f" with the adapter {self._adapter.path}" if self._adapter else ""
                    fault = f"the local model {self._weights.path}{adapter}: {error}"
                    raise ModelUnavailable(fault) if again else ConfigurationError(f"[model] local: {fault}") from error
                self._running = (process, self._client(process.address))
            return self._running

    def _client(self, address: str) -> OpenAIServer:
        return OpenAIServer(
            OpenAIServerConfig(
                base_url=f"{address}/v1",
                model=self.name,
                timeout_s=self._config.timeout_s,
                tries=_TRIES,
                first_wait_s=0.2,
            )
        )


def _name(weights: Weights, adapter: Weights | None) -> str:
    return weights.name if adapter is None else f"{weights.name}+{adapter.name}"


def _settings(weights: Weights, config: LocalModelConfig, adapter: Weights | None) -> str:
    own = config.model_dump(include={"context", "threads", "slots"})
    told = {"path": str(weights.path), "name": _name(weights, adapter), "cache_mb": _CACHE_MB, **own}
    return json.dumps(told if adapter is None else told | {"adapter": str(adapter.path)})
