"""`make bench-sft`: tokens a second of our fine-tuning beside trl's SFTTrainer. The last line is one JSON object.

Both train the same model, by default one of Qwen2's architecture with random weights, on the same windows with the same
adapter, packed by the same rule into rows of the same length, in one process, turn about. What a run does besides its
steps (loading, packing, saving) is not counted on either side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from peft import LoraConfig as PeftLoraConfig
from rich.console import Console
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import SFTConfig, SFTTrainer

from pipeline.types import Record
from tests.unit.small_tokenizer import small_tokenizer
from training.backbone import LoraConfig
from training.methods.sft import SftConfig, train
from training.packing import Packs, pack
from training.run import Run
from training.token_files import TokenRow, read_rows
from training.tokens import IGNORED

VOCABULARY = 16_384
LEARNED = 0.2
"""Share of the made-up tokens that carry loss."""


class Setting(Record):
    """What both sides are given."""

    model: Path
    capacity: int
    rounds: int
    accumulation: int


def random_model(folder: Path) -> Path:
    """Some twenty million random weights; the tokenizer is there since trl asks for one, and reads nothing."""
    small_tokenizer(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def made_up(count: int, capacity: int) -> list[TokenRow]:
    """Windows whose lengths are spread as those of conversations are: most short, some as long as a pack."""
    chance = np.random.default_rng(0)
    lengths = chance.lognormal(np.log(capacity / 4), 0.7, count).astype(int).clip(32, capacity).tolist()
    rows = []
    for number, length in enumerate(lengths):
        ids = chance.integers(1, VOCABULARY, length).astype(np.int32)
        labels = np.where(chance.random(length) < LEARNED, ids, IGNORED).astype(np.int32)
        found = (array("i", ids.tobytes()), array("i", labels.tobytes()))
        rows.append(TokenRow(f"t{number}", "train", 0, 1, length, int((labels != IGNORED).sum()), "", *found))
    return rows


def ours(setting: Setting, packs: Packs, folder: Path) -> float:
    """Seconds of the steps of one epoch."""
    config = SftConfig(
        base=setting.model,
        max_tokens=setting.capacity,
        epochs=1,
        gradient_accumulation=setting.accumulation,
        lora=LoraConfig(),
        precision="fp32",
        gradient_checkpointing=False,
        save_every=1_000_000,
    )
    run = Run(folder, {})
    train(config, packs, None, run)
    return next(line["train_runtime"] for line in run.metrics() if "train_runtime" in line)


def theirs(setting: Setting, rows: Sequence[TokenRow], folder: Path) -> float:
    """The same of trl."""
    columns = {"input_ids": [list(row.input_ids) for row in rows], "labels": [list(row.labels) for row in rows]}
    told = SFTConfig(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=setting.accumulation,
        learning_rate=1e-5,
        max_length=setting.capacity,
        packing=True,
        packing_strategy="bfd",
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    model = AutoModelForCausalLM.from_pretrained(setting.model, dtype=torch.float32)
    adapter = PeftLoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = SFTTrainer(
        model=model,
        args=told,
        train_dataset=Dataset.from_dict(columns),
        peft_config=adapter,
        processing_class=PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_file=str(setting.model / "tokenizer.json"), eos_token="<|im_end|>", pad_token="<|endoftext|>"
        ),
    )
    return float(trainer.train().metrics["train_runtime"])


def main() -> None:
    """Compare, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sft", description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of weights (default: random ones)")
    parser.add_argument("--tokens", type=Path, help="folder of `touchstone export tokens` (default: made-up windows)")
    parser.add_argument("--capacity", type=int, default=1024, help="tokens of a pack")
    parser.add_argument("--windows", type=int, default=96, help="how many windows each run trains on")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    told = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = told.model or random_model(folder / "model")
        setting = Setting(model=model, capacity=told.capacity, rounds=told.rounds, accumulation=4)
        found = list(read_rows(told.tokens, "train")) if told.tokens else made_up(told.windows, told.capacity)
        rows = [row for row in found if row.n_tokens <= told.capacity][: told.windows]
        packs = pack(rows, [row.n_tokens for row in rows], told.capacity, folder / "packs")
        sides: dict[str, Callable[[Path], float]] = {
            "ours": lambda at: ours(setting, packs, at),
            "trl": lambda at: theirs(setting, rows, at),
        }
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(told.rounds):
            for name, side in list(sides.items())[:: 1 if turn % 2 else -1]:
                rates[name].append(packs.packing.n_tokens / side(folder / f"{name}-{turn}"))
                console.print(f"{name}, round {turn + 1}: {rates[name][-1]:.0f} tokens/s")
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(
        json.dumps(
            {
                "tokens_per_second_vs_trl": round(medians["ours"] / medians["trl"], 3),
                "padding_share": round(packs.packing.padding_share, 4),
                "model": model.name if told.model else "random weights, Qwen2 architecture",
                "tokens_per_second": {name: round(value, 1) for name, value in medians.items()},
                "rounds": told.rounds,
                "windows": len(rows),
                "packs": packs.packing.packs,
            }
        )
    )


if __name__ == "__main__":
    main()
