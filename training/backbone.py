"""One causal language model of transformers, with a LoRA adapter of peft on top or all of its weights trainable.

Not here: tokens (training/tokens.py), what is learned (training/methods), where versions lie (training/models.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model, get_peft_model_state_dict
from pydantic import Field
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from pipeline.errors import ConfigurationError
from pipeline.types import Record
from training.weight_files import ADAPTER, WEIGHTS

Precision = Literal["bf16", "fp32"]
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class LoraConfig(Record):
    """Low-rank adapters (Hu et al. 2021): W + (alpha / rank) B A, A and B being what is learned."""

    rank: int = Field(default=16, gt=0)
    alpha: int = Field(default=32, gt=0)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    targets: tuple[str, ...] = ("all-linear",)
    """Names of layers; `all-linear` stands for every linear layer but the output's."""


def load(base: Path, dtype: torch.dtype = torch.float32, adapter: Path | None = None) -> torch.nn.Module:
    """The weights of a folder, with an adapter on them, on the CPU. Nothing is fetched and no code of it is run.

    Raises ConfigurationError when a folder is none of these or the adapter is of another model.
    """
    if not (base / "config.json").is_file() or not any(base.glob(WEIGHTS)):
        raise ConfigurationError(f"{base} is no folder of weights: it lacks config.json or {WEIGHTS}")
    disable_progress_bar()  # type: ignore[no-untyped-call]
    model: torch.nn.Module
    try:
        model = AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
        if adapter is not None:
            model = PeftModel.from_pretrained(model, str(adapter), local_files_only=True)
            _check_adapter(model, adapter)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise ConfigurationError(f"{base}{f' with {adapter}' if adapter else ''} cannot be loaded: {error}") from error
    return model


def _check_adapter(model: torch.nn.Module, adapter: Path) -> None:
    """Raises ConfigurationError for an adapter that is not all in the model: peft leaves out what has no place."""
    with safe_open(adapter / ADAPTER, framework="pt") as stored:
        there = set(stored.keys())
    placed = set(get_peft_model_state_dict(model))
    if there != placed:
        first = min(there ^ placed)
        raise ConfigurationError(f"{adapter} is of another model: {first} is in one of the two only")


def with_lora(model: torch.nn.Module, config: LoraConfig) -> PeftModel:
    """The model with a new adapter, the only thing that is trainable. Raises ConfigurationError for unknown targets."""
    targets = config.targets[0] if len(config.targets) == 1 else list(config.targets)
    told = PeftLoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    try:
        adapted = get_peft_model(model, told)
    except ValueError as error:
        raise ConfigurationError(f"lora.targets: {error}") from error
    assert isinstance(adapted, PeftModel)
    return adapted


def parameters(model: torch.nn.Module) -> tuple[int, int]:
    """(all, trainable) parameters."""
    every = [(one.numel(), one.requires_grad) for one in model.parameters()]
    return sum(size for size, _ in every), sum(size for size, learns in every if learns)
