"""One training in several processes, each of which computes a part of every step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipeline.exports.tasks import NothingToExport
from tests.unit.hostile_rows import version_of
from tests.unit.test_training_launch import CONFIG, row
from tests.unit.tiny_model import tiny_model
from training.launch import TrainingFailed, fine_tune, fine_tune_on, read_config


@pytest.fixture
def data(tmp_path: Path) -> Path:
    version_of(tmp_path / "snapshots/terminal/v0001", [row(f"train {number}") for number in range(8)])
    tiny_model(tmp_path / "tiny")
    (tmp_path / "sft.toml").write_text(CONFIG + "learning_rate = 0.01\n")
    return tmp_path


def test_two_processes_make_the_steps_of_one_that_sees_twice_as_many_packs(data: Path) -> None:
    two = fine_tune_on(2, data / "sft.toml", data, "terminal", "two")
    alone = read_config(data / "sft.toml").model_copy(update={"gradient_accumulation": 4})
    one = fine_tune(alone, data, "terminal", "one")
    assert two.file.training.steps == one.file.training.steps == 4
    assert fine_tune_on(2, data / "sft.toml", data, "terminal", "two").folder == two.folder
    found, expected = (load_file(model.learned / "adapter_model.safetensors") for model in (two, one))
    for name, weights in expected.items():
        torch.testing.assert_close(found[name], weights, rtol=0, atol=5e-4)  # a step moves a weight by 1e-2


def test_a_training_whose_processes_fail_says_why(data: Path) -> None:
    (data / "sft.toml").write_text(CONFIG.replace("alpha = 4", "alpha = 4, targets = ['nothing']"))
    with pytest.raises(TrainingFailed, match=r"(?s)on 2 devices ended with 1: .*lora\.targets"):
        fine_tune_on(2, data / "sft.toml", data, "terminal", "two")


def test_what_is_wrong_before_any_process_starts_is_told_at_once(data: Path) -> None:
    with pytest.raises(NothingToExport, match="there is no snapshot 'nothing'"):
        fine_tune_on(2, data / "sft.toml", data, "nothing", "two")
