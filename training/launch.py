"""From a version of a data set to a version of a model: tokens, packs, training, and what is kept of it.

    python -m training.launch CONFIG --data DATA --snapshot NAME@VERSION --name MODEL

On several GPUs the same behind `torchrun`, for accelerate to divide; `touchstone train` starts either. What is
expensive is kept and found again: tokens by version and tokenizer, checkpoints by run.

Not here: how a method learns (training/methods).
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
import tomllib
from collections.abc import Container, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TypedDict

import torch
from accelerate import PartialState
from pydantic import ValidationError

from pipeline.errors import ConfigurationError, PipelineError
from pipeline.exports.published import PublishedVersion, published, rows_of
from pipeline.types import content_id
from training.data import tokens_of
from training.methods import sft
from training.methods.sft import Learned, OnStep, SftConfig
from training.models import Kind, TrainedModel, Training, models, publish_model
from training.packing import Packing, Packs, pack_split
from training.run import Run
from training.token_files import read_rows
from training.tokens import FILES, ChatTokenizer
from training.trained_on import TrainedRow
from training.weight_files import weights_sha256

log = logging.getLogger(__name__)

_OF_ROW = TrainedRow._fields[1:]
"""Columns of a row besides its id."""
_TOLD = 4_000
"""Characters of what a failed process printed."""
_PACKAGES = ("torch", "transformers", "peft", "accelerate")


class TrainingFailed(PipelineError):
    """A process that trained ended with an error. The text holds the end of what it printed."""


class Figures(TypedDict):
    """Fields of Training that are measured."""

    windows: int
    packs: int
    padding_share: float
    n_tokens: int
    n_target_tokens: int
    parameters: int
    trainable_parameters: int
    steps: int
    device: str
    first_loss: float
    last_loss: float
    validation_loss: float | None


def read_config(file: Path) -> SftConfig:
    """The table [sft] of a file; its paths are relative to the file.

    Raises ConfigurationError that names the file, the setting and what is wrong with it.
    """
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))["sft"]
        config = SftConfig.model_validate(told)
    except KeyError as error:
        raise ConfigurationError(f"{file} has no table [sft]") from error
    except (OSError, ValueError) as error:
        faults = error.errors() if isinstance(error, ValidationError) else ()
        texts = [f"sft.{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults] or [str(error)]
        raise ConfigurationError(f"{file}: {'; '.join(texts)}") from error
    return config.model_copy(update={"base": (file.parent / config.base).resolve()})


def fine_tune(
    config: SftConfig,
    data: Path,
    snapshot: str,
    name: str,
    *,
    code_commit: str | None = None,
    only: frozenset[str] | None = None,
    rows_in: Path | None = None,
    watched: bool = True,
    on_step: OnStep = lambda done, of: None,
) -> TrainedModel:
    """Fine-tune on the rows in `train` of a version, watched on those in `validation`; the version of the model.

    `data` is the data folder; `only` are ids of trajectories that alone are learned from; `rows_in` is the folder that
    the version lies in where that is another one. Where it is not `watched` the last weights are kept and `validation`
    is not looked at. A run that was made already gives the version that it gave; one that `on_step` ended by raising
    goes on from its newest checkpoint. Raises ConfigurationError, NothingToExport, SnapshotDamaged, ExportDamaged.
    """
    processes = PartialState(cpu=not torch.cuda.is_available())
    version = published(rows_in or data, snapshot)
    task = _task(config, data, version, processes.num_processes, only, watched)
    with task.run.alone() if processes.is_main_process else nullcontext():
        with processes.main_process_first():  # the others find what it made
            if made := _made(task, name):
                return made
            packs, validation = _packs(task)
        start = time.monotonic()
        learned = sft.train(config, packs, validation, task.run, on_step)
        if processes.is_main_process:
            _publish(task, name, learned, packs.packing, time.monotonic() - start, code_commit)
        processes.wait_for_everyone()
    found = _made(task, name)
    assert found is not None  # it was published above
    return found


@dataclass(frozen=True)
class _Task:
    """What a run is to do."""

    config: SftConfig
    data: Path
    version: PublishedVersion
    tokenizer: ChatTokenizer
    base_sha256: str
    run: Run
    only: frozenset[str] | None
    watched: bool

    def tokens(self) -> Path:
        """The folder of the tokens of the version, which all runs share; written where it is not there."""
        return tokens_of(self.data, self.version, self.tokenizer, self.config.max_tokens)


def _task(
    config: SftConfig,
    data: Path,
    version: PublishedVersion,
    processes: int,
    only: frozenset[str] | None = None,
    watched: bool = True,
) -> _Task:
    """With the run that is named by all that decides what comes of it. Raises as `fine_tune`."""
    version.chosen("train")
    tokenizer = ChatTokenizer(config.base)
    base_sha256 = weights_sha256(config.base)
    told = {
        "method": "sft",
        "config": config.model_dump(mode="json", exclude={"base"}),
        "processes": processes,
        "base_sha256": base_sha256,
        "tokenizer_id": tokenizer.tokenizer_id,
        "snapshot": version.reference,
        "snapshot_sha256": version.manifest.content_sha256,
        "only": None if only is None else content_id("rows", sorted(only)),
        "watched": watched,
    }
    return _Task(config, data, version, tokenizer, base_sha256, Run(data, told), only, watched)


def _made(task: _Task, name: str) -> TrainedModel | None:
    """The version of a model that the run gave."""
    return next((one for one in models(task.data, name) if one.file.training.run == task.run.name), None)


def _packs(task: _Task) -> tuple[Packs, Packs | None]:
    """Those of the split `train`, and of `validation` where the version has one and the run is watched."""
    tokens, capacity, place = task.tokens(), task.config.max_tokens, task.run.folder / "packs"
    packs = pack_split(tokens, "train", capacity, place / "train", task.only)
    if not task.watched or "validation" not in task.version.splits:
        return packs, None
    return packs, pack_split(tokens, "validation", capacity, place / "validation")


def _publish(
    task: _Task, name: str, learned: Learned, packing: Packing, seconds: float, code_commit: str | None
) -> None:
    config, version = task.config, task.version
    tokenized = {row.trajectory_id for row in read_rows(task.tokens(), "train")}
    rows = list(_rows(version, tokenized if task.only is None else tokenized & task.only))
    told = Training(
        method="sft",
        base=config.base.name,
        base_sha256=task.base_sha256,
        snapshot=version.reference,
        snapshot_sha256=version.manifest.content_sha256,
        rows=len(rows),
        left_out=version.manifest.splits["train"] - len(rows),
        tokenizer_id=task.tokenizer.tokenizer_id,
        chat_template_sha256=task.tokenizer.template_sha256,
        seconds=round(seconds, 1),
        run=task.run.name,
        config=config.model_dump(mode="json", exclude={"base"}),
        code_commit=code_commit,
        packages={package: version_of(package) for package in _PACKAGES},
        **_figures(packing, learned, task.run),
    )
    beside = [task.run.metrics_file, *(file for part in FILES if (file := config.base / part).is_file())]
    kind: Kind = "weights" if config.lora is None else "adapter"
    publish_model(task.data, name, learned.folder, kind, beside, rows, told)


def _rows(version: PublishedVersion, learned: Container[str]) -> Iterator[TrainedRow]:
    for found in rows_of(version, _OF_ROW, "train"):
        if found.trajectory_id in learned:
            assert found.row is not None  # else it could not have become tokens
            texts = {name: str(found.row.get(name) or "") for name in _OF_ROW}
            yield TrainedRow(trajectory_id=found.trajectory_id, **texts)


def _figures(packing: Packing, learned: Learned, run: Run) -> Figures:
    lines = list(run.metrics())
    losses = [line["loss"] for line in lines if "loss" in line]
    tenth = max(1, len(losses) // 10)
    return {
        "windows": packing.windows,
        "packs": packing.packs,
        "padding_share": round(packing.padding_share, 4),
        "n_tokens": packing.n_tokens,
        "n_target_tokens": packing.n_target_tokens,
        "parameters": learned.parameters,
        "trainable_parameters": learned.trainable,
        "steps": learned.steps,
        "device": learned.device,
        "first_loss": sum(losses[:tenth]) / tenth,
        "last_loss": sum(losses[-tenth:]) / tenth,
        "validation_loss": min((line["eval_loss"] for line in lines if "eval_loss" in line), default=None),
    }


def fine_tune_on(
    devices: int,
    file: Path,
    data: Path,
    snapshot: str,
    name: str,
    *,
    code_commit: str | None = None,
    on_step: OnStep = lambda done, of: None,
) -> TrainedModel:
    """`fine_tune` with the configuration in a file, on several devices of this machine or in this process.

    Steps are told only in this process. Raises as `fine_tune`, and TrainingFailed when another process failed.
    """
    config = read_config(file)
    # A process that sees several GPUs would spread batches over all of them.
    if devices == 1 and torch.cuda.device_count() <= 1:
        return fine_tune(config, data, snapshot, name, code_commit=code_commit, on_step=on_step)
    task = _task(config, data, published(data, snapshot), devices)
    if made := _made(task, name):
        return made
    told = command(file, data, snapshot, name, devices, code_commit)
    ended = subprocess.run(told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if ended.returncode != 0:
        raise TrainingFailed(f"training on {devices} devices ended with {ended.returncode}: {ended.stdout[-_TOLD:]}")
    found = _made(task, name)
    assert found is not None  # its processes ended well
    return found


def command(
    config: Path, data: Path, snapshot: str, name: str, devices: int, code_commit: str | None = None
) -> list[str]:
    """What starts a process for each of some devices of this machine."""
    start = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(devices),
        "--module",
    ]
    told = [str(config), "--data", str(data), "--snapshot", snapshot, "--name", name]
    return [*start, "training.launch", *told, *(["--code-commit", code_commit] if code_commit else [])]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train as the command line says."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m training.launch", description="Fine-tune on a published version.")
    parser.add_argument("config", type=Path, help="TOML file with a table [sft]")
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--snapshot", required=True, help="NAME@VERSION of the rows")
    parser.add_argument("--name", required=True, help="of the model")
    parser.add_argument("--code-commit", help="commit of this code, to be kept with the model")
    told = parser.parse_args(arguments)
    try:
        made = fine_tune(read_config(told.config), told.data, told.snapshot, told.name, code_commit=told.code_commit)
    except PipelineError as error:
        parser.exit(2, f"{error}\n")
    log.info("%s in %s", made.reference, made.folder)


if __name__ == "__main__":
    main()
