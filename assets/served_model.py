"""The model of the settings, and the adapter of a trained version where they name one instead of a file."""

import re
from pathlib import Path

from pydantic import SecretStr

from assets.training_packages import need_training_packages
from pipeline.errors import ConfigurationError
from pipeline.llm.choice import ModelConfig, chosen_model
from pipeline.llm.local_server import LocalModelConfig
from pipeline.llm.protocol import ChatModel
from pipeline.llm.weights import Weights, find_weights
from pipeline.snapshots.reading import LATEST, NAME, VERSION
from sandbox.locks import exclusive

ADAPTERS = "serve/adapters"
"""Folder of the data folder with the adapters of versions as GGUF files, by the weights that they are added to."""

_VERSION = re.compile(rf"{NAME.pattern}@({VERSION.pattern}|{LATEST})")


def served_model(config: ModelConfig, key: str | None, data: Path, folder: Path) -> ChatModel:
    """The model; `key` is for a server, paths are relative to `folder`. Raises ConfigurationError as `chosen_model`."""
    if isinstance(config, LocalModelConfig) and config.adapter is not None and _VERSION.fullmatch(config.adapter):
        file = _adapter_of(config.adapter, find_weights(config.local, folder), data)
        config = config.model_copy(update={"adapter": str(file)})
    return chosen_model(config, SecretStr(key) if key else None, folder)


def _adapter_of(reference: str, weights: Weights, data: Path) -> Path:
    """The adapter of a trained version as a file, which is made when it is first asked for."""
    need_training_packages(("torch", "safetensors", "gguf"))
    from training.gguf_adapter import write_gguf_adapter  # torch takes seconds
    from training.models import find_model

    version = find_model(data, reference)
    if version.file.kind != "adapter":
        raise ConfigurationError(
            f"[model] adapter: {version.reference} has weights and no adapter; serve it with infra/serve.sh "
            f"{version.folder} and name that server by base_url"
        )
    place = data / ADAPTERS / weights.name
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{version.reference}.gguf"
    with exclusive(data.resolve() / "locks" / f"adapter-{version.reference}.lock", "the file of an adapter"):
        if not file.exists():
            write_gguf_adapter(weights.path, version.learned, file)
    return file.absolute()
