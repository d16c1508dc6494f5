"""What tells weights from others of their name: a hash of the files that decide what a model computes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline.errors import ConfigurationError

_KINDS = frozenset({".safetensors", ".bin", ".gguf"})
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
"""An adapter is both: how strongly its matrices act stands in its settings."""


def weights_sha256(folder: Path) -> str:
    """Of the weights' one file, or of the hashes of all; infra/serve.sh says the same. Raises ConfigurationError."""
    hashes = [_sha256(file) for file in sorted(folder.glob("*")) if file.suffix in _KINDS]
    if not hashes:
        raise ConfigurationError(f"{folder} has no weights (*.safetensors); name the folder of a model")
    return hashes[0] if len(hashes) == 1 else _joined(hashes)


def adapter_sha256(folder: Path) -> str:
    """Of an adapter's matrices and settings. Raises ConfigurationError where one of them is missing."""
    if missing := [name for name in ADAPTER_FILES if not (folder / name).is_file()]:
        raise ConfigurationError(f"{folder} is no adapter: {missing[0]} is missing")
    return _joined([_sha256(folder / name) for name in ADAPTER_FILES])


def _joined(hashes: list[str]) -> str:
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
