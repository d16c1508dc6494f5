"""Full fine-tuning with Megatron-LM on a version that was exported for it.

    touchstone export megatron NAME@VERSION EXPORT
    python -m training.megatron EXPORT CONFIG OUT

OUT then holds launch.sh, `train.jsonl` and `validation.jsonl`, and the tokenizer as Megatron-LM has to be given it.

Of what Megatron-LM offers only the prompt format `identity` learns what shall be learned: its tools/preprocess_data.py
and its own SFT on messages in the format `default` learn every token, observations too. In `identity` a line is texts
that follow each other, those of the role assistant learned and the others given. So each window of a row
(training/long_rows.py) is written as the texts of its runs, heads of turns and control tokens among those that are
given, each end of a turn with what is learned. A window whose tokens are others when it is read at once, as Megatron-LM
reads it, is left out with a reason: what is learned is always what training/tokens.py marks.

The arguments were checked against the parser of Megatron-LM at commit d98e8a64ddf3 (August 2026) and what it asks of
them, and the lines against its SFT data set, whose tokens and labels are ours. Nothing was ever trained with it, and
how much memory a GPU needs is not known. Weights in its format are made of a model's with Megatron-Bridge.

Not here: adapters, which Megatron-LM has none of. Lines are read in the order of the export.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.exports.account import RowRefused
from pipeline.exports.chat import messages_of
from pipeline.exports.folders import new_folder
from pipeline.exports.megatron import Megatron
from pipeline.token_counts import load_tokenizer
from training.long_rows import windows
from training.setups import Setup, read_setup
from training.tokens import ChatTokenizer, Encoded, Memo

NODE_GPUS = 8
"""Of one machine."""
SPLITS = ("train", "validation")

_SCRIPT = """\
#!/bin/sh
# Starts Megatron-LM on the files beside this one; on several machines once on each.
#   MEGATRON_LM  its folder          WEIGHTS  folder of the weights to begin with, in its format
#   NODE_RANK, MASTER_ADDR, MASTER_PORT  of this machine and of the first
set -eu
: "${{MEGATRON_LM:?names the folder of Megatron-LM}}" "${{WEIGHTS:?names the folder of weights in its format}}"
cd "$(dirname "$0")"
export CUDA_DEVICE_MAX_CONNECTIONS=1 PYTHONPATH="$MEGATRON_LM${{PYTHONPATH:+:$PYTHONPATH}}"
exec torchrun --nnodes {nodes} --nproc-per-node {gpus} --node-rank "${{NODE_RANK:-0}}" \\
    --master-addr "${{MASTER_ADDR:-localhost}}" --master-port "${{MASTER_PORT:-29500}}" \\
    "$MEGATRON_LM/pretrain_gpt.py" --pretrained-checkpoint "$WEIGHTS" \\
    {arguments}
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Shape:
    """What Megatron-LM is told of a model."""

    layers: int
    width: int
    inner: int
    heads: int
    keys: int
    vocabulary: int
    positions: int
    epsilon: float
    rotary_base: int
    tied: bool


def command(setup: Setup, counts: Mapping[str, int]) -> list[str]:
    """The arguments of Megatron-LM's pretrain_gpt.py, for `counts` lines by split; paths are relative to OUT.

    Raises ConfigurationError for a model that is not of the kind of Qwen2, adapters, and parts that do not divide it.
    """
    shape = _shape(setup)
    _check(setup, shape)
    return [*_model(shape), *_training(setup, counts), *_parts(setup), *_data(setup, counts)]


def write(export: Path, setup: Setup, out: Path) -> dict[str, int]:
    """Write the launcher and what it needs into a new folder; the lines by split, and how many windows were left out.

    Raises ConfigurationError when the export, the tokenizer or the configuration is not one, or no line is left.
    """
    _check(setup, _shape(setup))
    if not (export / "train.jsonl").is_file():
        raise ConfigurationError(f"{export} is no export of the format megatron: it has no train.jsonl")
    tokenizer = ChatTokenizer(setup.sft.base)
    counts = dict.fromkeys((*SPLITS, "left out"), 0)
    with new_folder(out) as part:
        _write_tokenizer(setup.sft.base, part / "tokenizer")
        with (part / "left_out.jsonl").open("w", encoding="utf-8") as left_out:
            for split in SPLITS:
                if not (export / f"{split}.jsonl").is_file():
                    continue
                with (part / f"{split}.jsonl").open("w", encoding="utf-8") as lines:
                    for line in _lines(export / f"{split}.jsonl", tokenizer, setup):
                        kept = "messages" in line
                        counts[split if kept else "left out"] += 1
                        (lines if kept else left_out).write(json.dumps(line, ensure_ascii=False) + "\n")
        if not counts["train"]:
            raise ConfigurationError(f"{export}: no row of it can be learned so; the first reason: {_first(part)}")
        script = part / "launch.sh"
        script.write_text(_script(setup, counts), encoding="utf-8")
        script.chmod(0o755)
    return counts


def _script(setup: Setup, counts: Mapping[str, int]) -> str:
    gpus = min(setup.machines.gpus, NODE_GPUS)
    flags = [list(group) for group in _by_flag(command(setup, counts))]
    arguments = " \\\n    ".join(shlex.join(flag) for flag in flags)
    return _SCRIPT.format(nodes=setup.machines.gpus // gpus, gpus=gpus, arguments=arguments)


def _by_flag(arguments: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for argument in arguments:
        if argument.startswith("--") and group:
            yield group
            group = []
        group.append(argument)
    yield group


def _shape(setup: Setup) -> _Shape:
    told = dict(setup.model)
    if told.get("model_type") != "qwen2":
        raise ConfigurationError(f"model.model_type: {told.get('model_type')} is none that is known here; qwen2 is")
    try:
        return _Shape(
            layers=int(str(told["num_hidden_layers"])),
            width=int(str(told["hidden_size"])),
            inner=int(str(told["intermediate_size"])),
            heads=int(str(told["num_attention_heads"])),
            keys=int(str(told["num_key_value_heads"])),
            vocabulary=int(str(told["vocab_size"])),
            positions=int(str(told["max_position_embeddings"])),
            epsilon=float(str(told["rms_norm_eps"])),
            rotary_base=int(float(str(told["rope_theta"]))),
            tied=bool(told["tie_word_embeddings"]),
        )
    except KeyError as error:
        raise ConfigurationError(f"model.{error.args[0]} is missing") from error
    except ValueError as error:
        raise ConfigurationError(f"model: {error}") from error


def _check(setup: Setup, shape: _Shape) -> None:
    """Raises ConfigurationError for what Megatron-LM could not divide or does not have."""
    tensor, pipeline, gpus = setup.megatron.tensor, setup.megatron.pipeline, setup.machines.gpus
    if setup.sft.lora is not None:
        raise ConfigurationError("sft.lora: Megatron-LM has no adapters; write lora = false")
    for name, size in (("heads", shape.heads), ("inner features", shape.inner), ("words", shape.vocabulary)):
        if size % tensor:
            raise ConfigurationError(f"megatron.tensor: {size} {name} cannot be divided by {tensor}")
    if shape.keys % tensor and tensor % shape.keys:
        raise ConfigurationError(f"megatron.tensor: {tensor} and {shape.keys} key heads do not divide each other")
    if shape.layers % pipeline:
        raise ConfigurationError(f"megatron.pipeline: {shape.layers} layers cannot be divided by {pipeline}")
    if gpus % (tensor * pipeline):
        raise ConfigurationError(
            f"machines.gpus: {gpus} GPUs do not hold a whole number of models of {tensor} x {pipeline} parts"
        )
    if gpus > NODE_GPUS and gpus % NODE_GPUS:
        raise ConfigurationError(f"machines.gpus: {gpus} is no whole number of machines of {NODE_GPUS}")


def _model(shape: _Shape) -> list[str]:
    sizes = {
        "--num-layers": shape.layers,
        "--hidden-size": shape.width,
        "--ffn-hidden-size": shape.inner,
        "--num-attention-heads": shape.heads,
        "--num-query-groups": shape.keys,
        "--max-position-embeddings": shape.positions,
        "--padded-vocab-size": shape.vocabulary,
        "--normalization": "RMSNorm",
        "--norm-epsilon": shape.epsilon,
        "--position-embedding-type": "rope",
        "--rotary-base": shape.rotary_base,
        "--attention-dropout": 0.0,
        "--hidden-dropout": 0.0,
    }
    flags = ["--group-query-attention", "--swiglu", "--disable-bias-linear", "--add-qkv-bias"]
    return [*_told(sizes), *flags, *([] if shape.tied else ["--untie-embeddings-and-output-weights"])]


def _training(setup: Setup, counts: Mapping[str, int]) -> list[str]:
    """The step of the configuration: as many windows as all its GPUs would see, whatever the parts of a model."""
    sft = setup.sft
    step = _step(setup)
    settings = {
        "--seq-length": sft.max_tokens,
        "--micro-batch-size": sft.micro_batch,
        "--global-batch-size": step,
        "--train-iters": math.ceil(counts["train"] * sft.epochs / step),
        "--lr": sft.learning_rate,
        "--min-lr": 0.0,
        "--lr-decay-style": "cosine",
        "--lr-warmup-fraction": sft.warmup_share,
        "--weight-decay": sft.weight_decay,
        "--clip-grad": sft.max_grad_norm,
        "--seed": sft.seed + 1,  # it refuses 0
    }
    return [*_told(settings), "--calculate-per-token-loss", *(["--bf16"] if sft.precision == "bf16" else [])]


def _parts(setup: Setup) -> list[str]:
    sizes = {
        "--tensor-model-parallel-size": setup.megatron.tensor,
        "--pipeline-model-parallel-size": setup.megatron.pipeline,
    }
    again = {"--recompute-granularity": "full", "--recompute-method": "uniform", "--recompute-num-layers": 1}
    return [
        *_told(sizes),
        *(["--sequence-parallel"] if setup.megatron.tensor > 1 else []),
        "--use-distributed-optimizer",
        *(_told(again) if setup.sft.gradient_checkpointing else []),
    ]


def _data(setup: Setup, counts: Mapping[str, int]) -> list[str]:
    looks = math.ceil(counts["validation"] / _step(setup))
    settings = {
        "--tokenizer-type": "SFTTokenizer",
        "--tokenizer-model": "tokenizer",
        "--sft-tokenizer-prompt-format": "identity",
        "--train-data-path": "train.jsonl",
        **({"--valid-data-path": "validation.jsonl", "--eval-interval": setup.sft.eval_every} if looks else {}),
        "--eval-iters": looks,
        "--load": "checkpoints",
        "--save": "checkpoints",
        "--save-interval": setup.sft.save_every,
        "--log-interval": 1,
    }
    return ["--sft", "--no-create-attention-mask-in-dataloader", *_told(settings)]


def _step(setup: Setup) -> int:
    return setup.sft.micro_batch * setup.sft.gradient_accumulation * setup.machines.gpus


def _told(settings: Mapping[str, object]) -> list[str]:
    return [part for name, value in settings.items() for part in (name, str(value))]


def _write_tokenizer(base: Path, folder: Path) -> None:
    """The tokenizer with padding under the name by which Megatron-LM looks for it. Raises ConfigurationError."""
    file = base / "tokenizer_config.json"
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"tokenizer: {file} cannot be read ({error})") from error
    padding = settings.get("pad_token")
    if padding is None or padding == settings.get("eos_token"):
        raise ConfigurationError(f"tokenizer: {file} has no pad_token of its own; what is padding is never learned")
    folder.mkdir()
    shutil.copyfile(base / "tokenizer.json", folder / "tokenizer.json")
    text = json.dumps(settings | {"unk_token": padding}, ensure_ascii=False, indent=1)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def _lines(file: Path, tokenizer: ChatTokenizer, setup: Setup) -> Iterator[dict[str, object]]:
    """A line for each window of the rows, or the reason why there is none."""
    source = setup.sft.base / "tokenizer.json"
    whole = load_tokenizer(source.read_text(encoding="utf-8"), source)
    with file.open(encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            one = {"trajectory_id": row["trajectory_id"]}
            try:
                made = _encoded(messages_of(Megatron().recovered(row)), tokenizer, setup.sft.max_tokens)
            except RowRefused as error:
                yield one | {"reason": str(error)}
                continue
            for window in made:
                messages = _told_and_learned(window, tokenizer)
                text = "".join(message["content"] for message in messages)
                if whole.encode(text, add_special_tokens=False).ids == list(window.input_ids()):
                    yield one | {"messages": messages}
                else:
                    yield one | {"reason": "read at once, a window of it has other tokens"}


def _encoded(told: Sequence[Mapping[str, str]], tokenizer: ChatTokenizer, max_tokens: int) -> list[Encoded]:
    memo: Memo = {}
    messages = tokenizer.template.as_given(told)
    return [window.encode(tokenizer, memo) for window in windows(messages, tokenizer, max_tokens, memo)]


def _told_and_learned(window: Encoded, tokenizer: ChatTokenizer) -> list[dict[str, str]]:
    """The texts of a window in order, as Megatron-LM tells apart what is learned."""
    return [
        {
            "role": "assistant" if learned else "user",
            "content": tokenizer.text_of([number for run in runs for number in run.ids]),
        }
        for learned, runs in groupby(window.runs, lambda run: run.target)
    ]


def _first(part: Path) -> str:
    lines = (part / "left_out.jsonl").read_text(encoding="utf-8").splitlines()
    return str(json.loads(lines[0])["reason"]) if lines else "it has no rows"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder named on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m training.megatron", description="Make a launcher of Megatron-LM.")
    parser.add_argument("export", type=Path, help="folder that `touchstone export megatron` made")
    parser.add_argument("config", type=Path, help="TOML file with the tables model, sft, machines and megatron")
    parser.add_argument("out", type=Path, help="where to write; not there yet, or empty")
    told = parser.parse_args(arguments)
    try:
        counts = write(told.export, read_setup(told.config), told.out)
    except ConfigurationError as error:
        parser.exit(2, f"{error}\n")
    log.info("%s: %s", told.out / "launch.sh", ", ".join(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
