"""Models of arms that are trained and answer on this machine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.llm.local_server import LocalModel, LocalModelConfig
from pipeline.llm.protocol import ChatModel
from pipeline.llm.weights import find_adapter, find_weights
from sandbox.locks import exclusive
from training.backbone import LoraConfig
from training.gguf_adapter import write_gguf_adapter
from training.launch import fine_tune
from training.methods.sft import SftConfig
from training.models import TrainedModel
from training.policy import open_model
from training.studies.running import StretchOver
from training.studies.study import Arm, LearningConfig, Study
from training.weight_files import weights_sha256

ADAPTERS = "training/gguf"
"""Below the data folder."""
_DIGITS = 16
_LOSS_TOKENS = 1024
"""Logits are made of the tokens that are learned alone, and of so many at a time."""


@dataclass(frozen=True)
class LocalModels:
    """See training/studies/running.py, Models."""

    data: Path
    teacher: Callable[[], ChatModel | None]
    """The model of [model]."""
    code_commit: str | None = None

    def learned(self, study: Study, arm: Arm, seed: int) -> TrainedModel:
        assert arm.lesson is not None
        config = study.config.learning
        version = arm.lesson.version
        name = re.sub(r"[^a-z0-9_]+", "-", f"{study.name}-{arm.name}".lower())
        with exclusive(self.data / "locks" / f"learning-{name}-{seed}.lock", f"the training of {name}"):
            return fine_tune(
                sft_config(config, seed),
                self.data,
                version.reference,
                name,
                code_commit=self.code_commit,
                only=frozenset(row.trajectory_id for row in arm.lesson.rows),
                rows_in=version.root,
                watched=False,
                on_step=_Stretch(config).on_step,
            )

    @contextmanager
    def opened(self, study: Study, arm: Arm, model: TrainedModel | None) -> Iterator[ChatModel]:
        acting, base = study.config.acting, study.config.learning.base
        if arm.answered == "teacher":
            teacher = self.teacher()
            if teacher is None:
                raise ConfigurationError("the teacher is the model of [model], and none is named there")
            yield teacher
        elif acting.gguf is None:
            name = f"{base.name}+{arm.name}" if model is not None else base.name
            if model is not None and model.file.kind == "weights":
                yield open_model(name, model.learned, tokenizer=base, device=acting.device)
            else:
                yield open_model(name, base, None if model is None else model.learned, device=acting.device)
        else:
            adapter = None if model is None else self._gguf_adapter(base, model)
            told = LocalModelConfig(local=str(acting.gguf), context=acting.context, threads=acting.threads)
            found = None if adapter is None else find_adapter(str(adapter), Path())
            local = LocalModel(find_weights(str(acting.gguf), Path()), told, found)
            try:
                yield local
            finally:
                local.close()

    def _gguf_adapter(self, base: Path, model: TrainedModel) -> Path:
        if model.file.kind == "weights":
            raise ConfigurationError("acting.gguf takes adapters only; give learning.lora_rank, or leave gguf out")
        file = self.data / ADAPTERS / f"{weights_sha256(model.learned)[:_DIGITS]}.gguf"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file():
            write_gguf_adapter(base, model.learned, file)
        return file


def sft_config(config: LearningConfig, seed: int) -> SftConfig:
    """How an arm learns."""
    rank = config.lora_rank
    return SftConfig(
        **config.model_dump(
            include={
                "base",
                "max_tokens",
                "epochs",
                "learning_rate",
                "precision",
                "gradient_checkpointing",
                "save_every",
            }
        ),
        micro_batch=1,
        gradient_accumulation=config.batch,
        loss_tokens=_LOSS_TOKENS,
        lora=None if rank == 0 else LoraConfig(rank=rank, alpha=2 * rank),
        seed=seed,
    )


class _Stretch:
    """Ends a training when its time is used up, behind a checkpoint and not before it came further."""

    def __init__(self, config: LearningConfig) -> None:
        self._config = config
        self._end = time.process_time() + config.stretch_cpu_s
        self._first: int | None = None

    def on_step(self, done: int, of: int) -> None:
        self._first = done if self._first is None else self._first
        saved = (done - 1) % self._config.save_every == 0 and done - self._first >= self._config.save_every
        if saved and done < of and time.process_time() > self._end:
            raise StretchOver(done - 1, of)
