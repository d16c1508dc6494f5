"""Configuration files that say on what machines a model is trained, besides how (training/configs).

The tables are [model] (the fields of the model's config.json that shape it), [sft] (the settings of the training),
[machines], and for Megatron-LM [megatron]. The training itself reads [sft] alone (training/launch.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from pipeline.errors import ConfigurationError
from pipeline.types import Record
from training.methods.sft import SftConfig


class Machines(Record):
    """The GPUs, all alike."""

    gpus: int = Field(gt=0)
    memory_gb: int = Field(gt=0)
    """Of one, in GiB."""


class Parallel(Record):
    """Into how many parts Megatron-LM divides a model."""

    tensor: int = Field(default=1, gt=0)
    """Parts of each layer."""
    pipeline: int = Field(default=1, gt=0)
    """Stretches of layers."""


class Setup(Record):
    """A configuration file."""

    model: Mapping[str, object]
    sft: SftConfig
    machines: Machines
    megatron: Parallel = Parallel()


def read_setup(file: Path) -> Setup:
    """The configuration in a TOML file. Raises ConfigurationError that names the file and the setting."""
    try:
        setup = Setup.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        faults = error.errors() if isinstance(error, ValidationError) else ()
        texts = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults] or [str(error)]
        raise ConfigurationError(f"{file}: {'; '.join(texts)}") from error
    base = (file.parent / setup.sft.base).resolve()
    return setup.model_copy(update={"sft": setup.sft.model_copy(update={"base": base})})
