"""Configuration files of trainings (training/configs), as far as something else than the training reads them.

The tables are [model] (the fields of the model's config.json that shape it), [sft] (the settings of the training),
[machines], and for Megatron-LM [megatron].
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from pipeline.errors import ConfigurationError
from pipeline.types import Record


class Adapter(Record):
    """The shape of a LoRA adapter. Other settings of one take no memory."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rank: int = Field(default=16, gt=0)
    targets: tuple[str, ...] = ("all-linear",)
    """Names of layers; `all-linear` stands for every linear layer but the output's."""


class Sft(Record):
    """What is read of the table [sft]; the training checks the others."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    base: Path
    """Folder of weights with its tokenizer, relative to the configuration file."""
    max_tokens: int = Field(default=32768, gt=0)
    epochs: float = Field(default=2.0, gt=0.0)
    learning_rate: float = Field(default=1e-5, gt=0.0)
    warmup_share: float = Field(default=0.05, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    max_grad_norm: float = Field(default=1.0, gt=0.0)
    micro_batch: int = Field(default=1, gt=0)
    gradient_accumulation: int = Field(default=8, gt=0)
    """Micro-batches of a step for each GPU."""
    precision: Literal["bf16", "fp32"] = "bf16"
    gradient_checkpointing: bool = True
    fsdp: bool = False
    """Without it every GPU holds the whole model."""
    lora: Adapter | None = Adapter()
    """None, or false in a file, for full weights."""
    eval_every: int = Field(default=50, gt=0)
    save_every: int = Field(default=50, gt=0)
    seed: int = 0

    @field_validator("lora", mode="before")
    @classmethod
    def _full(cls, told: object) -> object:
        return None if told is False else told


class Machines(Record):
    """The GPUs, all alike."""

    gpus: int = Field(gt=0)
    memory_gb: int = Field(gt=0)
    """Of one, in GiB."""
    loss_tokens: int | None = Field(default=None, gt=0)
    """Tokens whose logits are held at once, which the loss has to keep to; None for all of a micro-batch."""


class Parallel(Record):
    """Into how many parts Megatron-LM divides a model."""

    tensor: int = Field(default=1, gt=0)
    """Parts of each layer."""
    pipeline: int = Field(default=1, gt=0)
    """Stretches of layers."""


class Setup(Record):
    """A configuration file."""

    model: Mapping[str, object]
    sft: Sft
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
