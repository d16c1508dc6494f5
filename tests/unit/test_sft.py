"""Fine-tuning a tiny model on the CPU: it learns, goes on where it was ended, and batches do not change the result."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipeline.errors import ConfigurationError
from tests.unit.tiny_model import tiny_model
from training.backbone import LoraConfig
from training.methods.sft import SftConfig, train
from training.packing import Packs, pack
from training.run import Run
from training.token_files import TokenRow
from training.tokens import IGNORED


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Packs:
    return made(tmp_path_factory.mktemp("packs") / "train", 8)


def made(folder: Path, count: int, *, targets: bool = True) -> Packs:
    """Packs in which every third token is learned, the sum of the two before it; fewer in each than in the last."""
    rows = []
    for number in range(count):
        ids = [number + 1, 3]
        while len(ids) < 24:
            ids.append((ids[-1] + ids[-2]) % 97)
        learned = range(2, 24 - 2 * number, 3) if targets else range(0)
        labels = [one if at in learned else IGNORED for at, one in enumerate(ids)]
        rows.append(TokenRow(f"t{number}", "train", 0, 1, 24, 8, "small@0", array("i", ids), array("i", labels)))
    return pack(rows, [24] * count, 24, folder)


def config(base: Path, **changed: object) -> SftConfig:
    told: dict[str, object] = {
        "base": base,
        "max_tokens": 24,
        "epochs": 4,
        "learning_rate": 5e-3,
        "micro_batch": 1,
        "gradient_accumulation": 2,
        "lora": LoraConfig(rank=4, alpha=8),
        "precision": "fp32",
        "gradient_checkpointing": False,
        "save_every": 3,
    }
    return SftConfig.model_validate(told | changed)


def run_of(folder: Path) -> Run:
    return Run(folder, {"test": str(folder)})


def weights(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("*.safetensors")
    return load_file(file)


def same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Ended(Exception):
    """The power went out."""


def end_after(step: int) -> None:
    raise Ended(step)


def test_the_loss_falls(base: Path, packs: Packs, tmp_path: Path) -> None:
    run = run_of(tmp_path)
    learned = train(config(base, epochs=10, lora=None), packs, None, run)
    losses = [line["loss"] for line in run.metrics() if "loss" in line]
    assert learned.steps == len(losses) == 40
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])
    assert learned.trainable == learned.parameters


@pytest.mark.parametrize("lora", [LoraConfig(rank=4, alpha=8, dropout=0.1), None], ids=["adapter", "weights"])
def test_a_run_that_was_ended_and_goes_on_gives_the_same_bits(
    base: Path, packs: Packs, tmp_path: Path, lora: LoraConfig | None
) -> None:
    told = config(base, lora=lora)
    whole, ended = run_of(tmp_path / "whole"), run_of(tmp_path / "ended")
    expected = weights(train(told, packs, None, whole).folder)
    with pytest.raises(Ended):
        train(told, packs, None, ended, lambda done, of: end_after(done) if done == 8 else None)
    steps: list[int] = []
    found = weights(train(told, packs, None, ended, lambda done, of: steps.append(done)).folder)
    assert steps[0] == 7, "it goes on from the checkpoint of step 6"
    assert same_bits(found, expected)
    assert [line["step"] for line in ended.metrics()] == [line["step"] for line in whole.metrics()]
    assert [line.get("loss") for line in ended.metrics()] == [line.get("loss") for line in whole.metrics()]


def test_one_batch_of_eight_is_eight_batches_of_one(base: Path, packs: Packs, tmp_path: Path) -> None:
    wide = train(config(base, micro_batch=8, gradient_accumulation=1), packs, None, run_of(tmp_path / "wide"))
    long = train(config(base, micro_batch=1, gradient_accumulation=8), packs, None, run_of(tmp_path / "long"))
    one, other = weights(wide.folder), weights(long.folder)
    assert wide.steps == long.steps == 4
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=1e-4)  # a step moves a weight by 5e-3


def test_another_seed_is_another_result_and_the_same_seed_the_same(base: Path, packs: Packs, tmp_path: Path) -> None:
    first, again, other = (
        weights(train(config(base, seed=seed), packs, None, run_of(tmp_path / name)).folder)
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert same_bits(first, again)
    assert not same_bits(first, other)


def test_it_ends_early_when_the_validation_rows_get_no_better_and_keeps_the_best(base: Path, tmp_path: Path) -> None:
    packs, validation = made(tmp_path / "train", 2), made(tmp_path / "validation", 3)
    told = config(base, epochs=200, learning_rate=3e-2, gradient_accumulation=2, eval_every=4, patience=2)
    run = run_of(tmp_path / "run")
    learned = train(told, packs, validation, run)
    looks = [line["eval_loss"] for line in run.metrics() if "eval_loss" in line]
    assert learned.steps < 200
    assert len(looks) - 1 - looks.index(min(looks)) >= 2


def test_the_last_step_is_looked_at_too(base: Path, packs: Packs, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    learned = train(config(base, epochs=1, eval_every=3), packs, made(tmp_path / "validation", 2), run)
    assert [line["step"] for line in run.metrics() if "eval_loss" in line] == [3, learned.steps]


def test_packs_with_nothing_to_learn_are_a_mistake(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no token of an assistant"):
        train(config(base), made(tmp_path / "packs", 2, targets=False), None, run_of(tmp_path))


def test_a_layer_that_the_model_has_not_is_a_mistake(base: Path, packs: Packs, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"lora\.targets"):
        train(config(base, lora=LoraConfig(targets=("nothing",))), packs, None, run_of(tmp_path))


def test_a_folder_without_weights_is_a_mistake(packs: Packs, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no folder of weights"):
        train(config(tmp_path), packs, None, run_of(tmp_path))


def test_the_loss_in_parts_learns_the_same(base: Path, packs: Packs, tmp_path: Path) -> None:
    whole, parts = (
        weights(train(config(base, loss_tokens=tokens), packs, None, run_of(tmp_path / str(tokens))).folder)
        for tokens in (None, 5)
    )
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-3, atol=1e-5)
