"""A data folder that studies can be made in: a version of rows, admitted tasks, a tiny model, and arms' models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.curation.splits import SplitConfig
from pipeline.llm.protocol import ChatModel
from pipeline.schemas import Row
from tests.unit.hostile_rows import verified_row, version_of
from tests.unit.recorded_evaluations import (
    OPTIONS,
    RIGHT,
    WRONG,
    PlannedBackend,
    PlannedModel,
    evaluated,
    fill,
    planned,
)
from tests.unit.tiny_model import tiny_model
from training.cells import CellLine, Cells
from training.evaluation_tasks import EvaluatedTask
from training.models import TrainedModel, Training, publish_model
from training.studies.material import Material
from training.studies.running import Bench, StretchOver
from training.studies.study import Arm, Study


def row(name: str, **fields: object) -> Row:
    """A verified row whose instruction is unlike all others."""
    words = f"{name} " * 3
    chat = [
        {"role": "user", "content": f"Do {words}."},
        {"role": "assistant", "content": f"```bash\n{words}\n```"},
        {"role": "user", "content": "[exit code 0]"},
        {"role": "assistant", "content": "DONE"},
    ]
    return verified_row(name, text=f"Do {words}", chat=[*chat]) | {"domain": "general", **fields}


def task(name: str, **fields: object) -> EvaluatedTask:
    """An admitted task of a repository of its own."""
    told = {"document_sha256": hashlib.sha256(name.encode()).hexdigest(), "line": "1"}
    return evaluated(planned(name, provenance=told, **fields), f"own/{name}")


def study_folder(data: Path, rows: Sequence[Row], tasks: Sequence[EvaluatedTask]) -> Material:
    """The folder as studies see it; every task is in the split `test`."""
    version_of(data / "snapshots/terminal/v0001", rows)
    tiny_model(data / "tiny")
    splits = SplitConfig(repositories=0.999, families=0.999)
    return Material(data, fill(data, tasks), splits, data / "tiny", 512, "abc")


@dataclass
class StandInModels:
    """Models that were never trained and answer as planned: an arm passes at instances whose names are in `solved`."""

    data: Path
    solved: Mapping[str, frozenset[str]]
    """By arm."""
    names: Sequence[str]
    """Of all planned tasks."""
    interrupted: int = 0
    """So many stretches of training come before a training is whole."""
    trained: list[tuple[str, int]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)

    def learned(self, study: Study, arm: Arm, seed: int) -> TrainedModel:
        if self.interrupted:
            self.interrupted -= 1
            raise StretchOver(10 * (self.interrupted + 1), 50)
        assert arm.lesson is not None
        self.trained.append((arm.name, seed))
        learned = self.data / "learned" / arm.name
        learned.mkdir(parents=True, exist_ok=True)
        (learned / "adapter_config.json").write_text("{}")
        rows = arm.lesson.rows
        told = Training(
            method="sft",
            base="tiny",
            base_sha256="0",
            snapshot=arm.lesson.version.reference,
            snapshot_sha256="0",
            rows=len(rows),
            left_out=0,
            windows=len(rows),
            packs=1,
            padding_share=0.0,
            n_tokens=sum(one.n_tokens for one in rows),
            n_target_tokens=1,
            tokenizer_id="t",
            chat_template_sha256="0",
            parameters=1,
            trainable_parameters=1,
            steps=2,
            first_loss=2.0,
            last_loss=1.0,
            validation_loss=None,
            seconds=1.0,
            device="CPU",
            run=f"{arm.name}-{seed}",
            config={},
            code_commit=None,
            packages={},
        )
        metrics = self.data / "metrics.jsonl"
        metrics.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
        trained = [one.trained for one in rows]
        return publish_model(self.data, f"study-{arm.name}", learned, "adapter", [metrics], trained, told)

    @contextmanager
    def opened(self, study: Study, arm: Arm, model: TrainedModel | None) -> Iterator[ChatModel]:
        self.answered.append(arm.name)
        runs = study.config.acting.runs
        good = self.solved.get(arm.name, frozenset())
        yield PlannedModel({name: [RIGHT if name in good else WRONG] * runs for name in self.names}, {"arm": arm.name})


def bench(material: Material, models: StandInModels) -> Bench:
    backend = PlannedBackend()
    return Bench(material, models, lambda: backend, OPTIONS, "touchstone experiment")


def lines(folder: Path) -> list[CellLine]:
    return Cells(folder / "cells.jsonl").lines()
