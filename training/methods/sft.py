"""Supervised fine-tuning of TerminalTraj: a model learns to write what the assistant of verified trajectories wrote.

    L = - sum_{i in assistant} log p(token_i | tokens before it in its window) / number of such tokens of the batch

Multi-turn; what the assistant wrote and the token that ends its turn carry loss, all else is given
(training/tokens.py). The sum is over all micro-batches of a step, so 1 x 8 and 8 x 1 are the same step. Rows longer
than a window are cut so that each turn is learned once (training/long_rows.py); windows are packed, and none sees
another (training/packing.py).

Differences from the paper, which used Megatron-LM on full weights: transformers' Trainer on one machine or, through
accelerate, on many GPUs with FSDP; LoRA by default. trl's SFTTrainer is not used: it masks by the template's
`generation` tags, which few templates have, and drops the ends of rows that are too long.

Reads: packs of token windows. Writes: an adapter or full weights into the folder of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from pipeline.errors import ConfigurationError
from pipeline.types import Record
from training.backbone import DTYPES, LoraConfig, Precision, load, parameters, with_lora
from training.divided_loss import divide_loss
from training.packing import Ints, Packs
from training.run import Run

logger = logging.getLogger(__name__)

RESULT = "result"
"""Folder of the run with what was learned, as save_pretrained writes it."""


class SftConfig(Record):
    """How a model is fine-tuned."""

    base: Path
    """Folder of weights with tokenizer.json and a chat template, relative to the configuration file."""
    max_tokens: int = Field(default=32768, gt=0)
    """Longest window, and length of a pack."""
    epochs: float = Field(default=2.0, gt=0.0)
    learning_rate: float = Field(default=1e-5, gt=0.0)
    """Highest one: linear warm-up, then a cosine down to 0."""
    warmup_share: float = Field(default=0.05, ge=0.0, lt=1.0)
    """Part of the steps."""
    weight_decay: float = Field(default=0.0, ge=0.0)
    max_grad_norm: float = Field(default=1.0, gt=0.0)
    micro_batch: int = Field(default=1, gt=0)
    """Packs that a device sees at a time."""
    gradient_accumulation: int = Field(default=8, gt=0)
    """Micro-batches of a step, on each device."""
    lora: LoraConfig | None = LoraConfig()
    """None, or `false` in a file, for full weights."""
    precision: Precision = "bf16"
    gradient_checkpointing: bool = True
    loss_tokens: int | None = Field(default=None, gt=0)
    """Tokens whose logits are held at once; None for those of a whole micro-batch. The result is the same."""
    fsdp: bool = False
    """Spread parameters, gradients and optimizer over the GPUs that accelerate starts the run on."""
    eval_every: int = Field(default=50, gt=0)
    """Steps between two looks at the validation rows."""
    patience: int = Field(default=3, ge=0)
    """Looks without a lower loss after which the run ends, its best weights being the result; 0 never ends early."""
    save_every: int = Field(default=50, gt=0)
    """Steps between two checkpoints, from which an ended run goes on; `eval_every` where there are validation rows."""
    seed: int = 0

    @field_validator("lora", mode="before")
    @classmethod
    def _none(cls, lora: object) -> object:
        return None if lora is False else lora  # TOML has no word for None


OnStep = Callable[[int, int], None]


class Learned(NamedTuple):
    """What a training gave."""

    folder: Path
    """With the adapter or the weights, as save_pretrained writes them."""
    parameters: int
    trainable: int
    steps: int
    device: str


class _PackSet(Dataset[dict[str, Ints]]):
    """Packs as the Trainer's loader asks for them."""

    def __init__(self, packs: Packs) -> None:
        self._packs = packs

    def __len__(self) -> int:
        return len(self._packs)

    def __getitem__(self, place: int) -> dict[str, Ints]:
        return self._packs[place]


class _Follow(TrainerCallback):
    """Writes down what is logged, and tells of each step."""

    def __init__(self, run: Run, on_step: OnStep, validated: bool) -> None:
        self._run, self._on_step, self._validated = run, on_step, validated

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: object,
    ) -> None:
        if state.is_world_process_zero and logs:
            self._run.log(state.global_step, {name: value for name, value in logs.items() if name != "total_flos"})

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> TrainerControl:
        # The last weights are looked at too, or they could not be the best ones.
        control.should_evaluate |= self._validated and state.global_step >= state.max_steps
        self._on_step(state.global_step, state.max_steps)
        return control


def train(
    config: SftConfig, packs: Packs, validation: Packs | None, run: Run, on_step: OnStep = lambda done, of: None
) -> Learned:
    """Fine-tune on the packs, from the newest checkpoint of the run on.

    On a CPU a run that was ended and goes on gives the same bits as one that was not. `on_step` is told how many steps
    are done, of how many; what it raises ends the run. Raises ConfigurationError without a pack that has a target.
    """
    if not packs.packing.n_target_tokens:
        raise ConfigurationError("there is no token of an assistant to learn; look at audit.json of the tokens")
    if config.precision == "bf16" and not torch.cuda.is_available():
        logger.warning(
            'bf16 on a CPU that has no instructions for it is slow; there precision = "fp32" is the faster one'
        )
    if config.fsdp and not torch.cuda.is_available():
        raise ConfigurationError("fsdp needs GPUs; leave it out on this machine")
    if validation is not None and not validation.packing.n_target_tokens:
        validation = None
    model = load(config.base, DTYPES[config.precision if config.lora is not None else "fp32"])
    if config.loss_tokens is not None:
        divide_loss(model, config.loss_tokens)  # type: ignore[arg-type]  # what `load` gave
    torch.manual_seed(config.seed)  # the adapter's first weights
    if config.lora is not None:
        model = with_lora(model, config.lora)
    every, trainable = parameters(model)
    logger.info("%d packs, %d of %d parameters are trained", len(packs), trainable, every)
    trainer = Trainer(
        model=model,
        args=_arguments(config, len(packs), validation is not None, run),
        train_dataset=_PackSet(packs),
        eval_dataset=None if validation is None else _PackSet(validation),
        data_collator=_stacked,
        callbacks=[_Follow(run, on_step, validation is not None)],
    )
    trainer.remove_callback(PrinterCallback)
    if validation is not None and config.patience:
        trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=config.patience))
    checkpoint = _newest(run.checkpoints)
    if trainer.is_world_process_zero():
        run.forget_after(int(checkpoint.rpartition("-")[2]) if checkpoint else 0)
    trainer.train(resume_from_checkpoint=checkpoint)
    if config.lora is None:  # the Trainer switched off what makes answers fast, and would keep it so
        model.config.use_cache = True  # type: ignore[union-attr]  # the settings of a model of transformers
    trainer.save_model(str(run.folder / RESULT))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return Learned(run.folder / RESULT, every, trainable, trainer.state.global_step, device)


def _newest(checkpoints: Path) -> str | None:
    """The checkpoint of the latest step that is whole: what a run that was killed was writing has no state yet."""
    whole = [path.parent for path in checkpoints.glob("checkpoint-*/trainer_state.json")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


def _arguments(config: SftConfig, packs: int, validated: bool, run: Run) -> TrainingArguments:
    steps = _steps(config, packs)
    return TrainingArguments(
        output_dir=str(run.checkpoints),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=config.micro_batch,
        per_device_eval_batch_size=1,  # the mean over packs, whatever the batch of training is
        gradient_accumulation_steps=config.gradient_accumulation,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=round(config.warmup_share * steps),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        bf16=config.precision == "bf16",
        activation_checkpointing=config.gradient_checkpointing and not config.fsdp,
        activation_checkpointing_kwargs={"use_reentrant": False},
        fsdp=config.fsdp,  # type: ignore[arg-type]  # a flag by its documentation
        fsdp_config={"version": 2, "activation_checkpointing": config.gradient_checkpointing} if config.fsdp else None,
        ddp_find_unused_parameters=False,
        # Otherwise every GPU holds the gradients of the whole model until the last micro-batch of a step.
        accelerator_config={"gradient_accumulation_kwargs": {"sync_each_batch": config.fsdp}},
        seed=config.seed,
        data_seed=config.seed,
        logging_steps=1,
        eval_strategy="steps" if validated else "no",
        eval_steps=min(config.eval_every, steps),
        save_strategy="steps",
        save_steps=_save_every(config, steps, validated),
        save_total_limit=2,
        load_best_model_at_end=validated,
        metric_for_best_model="eval_loss" if validated else None,
        greater_is_better=False if validated else None,
        prediction_loss_only=True,
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
    )


def _steps(config: SftConfig, packs: int) -> int:
    """Optimizer steps of one process; of several it is more than they make."""
    each = -(-packs // (config.micro_batch * config.gradient_accumulation))
    return max(1, round(each * config.epochs))


def _save_every(config: SftConfig, steps: int, validated: bool) -> int:
    """The best weights can be kept only where they were looked at: then checkpoints are as often as looks."""
    return min(config.eval_every if validated else config.save_every, steps)


def _stacked(packs: Sequence[dict[str, Ints]]) -> dict[str, Tensor]:
    """A batch: input_ids, labels, position_ids of shape (packs, capacity). No mask: positions tell windows apart."""
    return {name: torch.from_numpy(np.stack([one[name] for one in packs]).astype(np.int64)) for name in packs[0]}
