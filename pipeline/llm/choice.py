"""Which model the settings mean: a server that somebody starts, or a model that is started on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, SecretStr, Tag

from pipeline.llm.local_server import LocalModel, LocalModelConfig
from pipeline.llm.openai_server import OpenAIServer, OpenAIServerConfig
from pipeline.llm.protocol import ChatModel
from pipeline.llm.starting import wait_for_server
from pipeline.llm.weights import find_adapter, find_weights


class ServerConfig(OpenAIServerConfig):
    """A server that somebody starts."""

    start_timeout_s: float = Field(default=0.0, ge=0)
    """Wait so long for one that is just being started; with 0 it is asked as it is."""
    engine: str | None = None
    """Program and version that serve the model; kept with each attempt."""
    weights: str | None = None
    """What tells its weights from others of its name, e.g. a hash; kept with each attempt."""


def _one(model: object) -> object:
    if isinstance(model, dict) and ("base_url" in model) == ("local" in model):
        raise ValueError("give either base_url, of a server that runs, or local, for a model that is started here")
    return model


def _kind(model: object) -> str:
    local = "local" in model if isinstance(model, dict) else isinstance(model, LocalModelConfig)
    return "local" if local else "server"


ModelConfig = Annotated[
    Annotated[ServerConfig, Tag("server")] | Annotated[LocalModelConfig, Tag("local")],
    Discriminator(_kind),
    BeforeValidator(_one),
]
"""[model] of the settings."""


def chosen_model(config: ServerConfig | LocalModelConfig, key: SecretStr | None, folder: Path) -> ChatModel:
    """The model; `key` is for a server, paths of weights are relative to `folder`. Waits where the settings say so.

    Raises ConfigurationError for a key that cannot be sent, for a server that does not come up in its time, and where
    weights or their engine are missing.
    """
    if isinstance(config, LocalModelConfig):
        adapter = find_adapter(config.adapter, folder) if config.adapter is not None else None
        return LocalModel(find_weights(config.local, folder), config, adapter)
    told = config.model_dump(include={"engine", "weights"}, exclude_none=True)
    server = OpenAIServer(config, key, details=told)
    if config.start_timeout_s:
        wait_for_server(config.base_url, config.start_timeout_s)
    return server
