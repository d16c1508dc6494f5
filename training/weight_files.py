"""What tells weights from others of their name: a hash of all that decides what a model computes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline.snapshots.manifest import file_sha256

WEIGHTS = "*.safetensors"
"""Files of weights; others, which run code when they are read, are not taken."""
ADAPTER = "adapter_model.safetensors"
"""The matrices of an adapter, as peft writes them."""


def weights_sha256(folder: Path) -> str:
    """Of the weights or the adapter of a folder: of the names and hashes of its files and of what shapes the model."""
    files = sorted([*folder.glob(WEIGHTS), *folder.glob("config.json"), *folder.glob("adapter_config.json")])
    return hashlib.sha256("".join(f"{file.name} {file_sha256(file)}\n" for file in files).encode()).hexdigest()
