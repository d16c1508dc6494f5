"""A version of a model that answers in this process, on the weights that its adapter was trained on.

For a few instances, or a machine without a server; for many, the version is served (infra/serve.sh).
"""

from __future__ import annotations

from pathlib import Path

import torch

from pipeline.errors import ConfigurationError
from training.models import TrainedModel
from training.policy import TransformersModel, open_model
from training.weight_files import weights_sha256


def answering(version: TrainedModel, base: Path) -> TransformersModel:
    """The adapter of the version on the weights in `base`, on the GPU where there is one.

    Raises ConfigurationError for a version that is no adapter, and for other weights than those it was trained on.
    """
    if version.file.kind != "adapter":
        raise ConfigurationError(
            f"--base: {version.reference} holds whole weights, no adapter; serve {version.learned}"
        )
    if weights_sha256(base) != version.file.training.base_sha256:
        raise ConfigurationError(
            f"--base: {base} has other weights than those that {version.reference} was trained on "
            f"({version.file.training.base})"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return open_model(version.reference, base, version.learned, version.folder, device)
