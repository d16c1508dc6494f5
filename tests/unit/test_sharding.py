"""Dry runs of trainings: what models of the paper's sizes take on each GPU, and what does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch.distributed as dist

from pipeline.errors import ConfigurationError
from training import sharding
from training.launch import read_config
from training.methods.sft import SftConfig
from training.setups import Machines, read_setup
from training.sharding import check, main, plan

CONFIGS = Path(sharding.__file__).parent / "configs"
PARAMETERS = {"7b": 7_615_616_512, "14b": 14_770_033_664, "32b": 32_763_876_352}
"""Of Qwen2.5-Coder, as published."""
TINY: Mapping[str, object] = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 512,
    "tie_word_embeddings": False,
}
LAYER = 64 * 64 + 64 + 2 * (64 * 32 + 32) + 64 * 64 + 3 * 64 * 96 + 2 * 64
TINY_PARAMETERS = 2 * LAYER + 2 * 512 * 64 + 64
EIGHT = Machines(gpus=8, memory_gb=80)


def sft(**changed: object) -> SftConfig:
    return SftConfig.model_validate({"base": "x", "max_tokens": 128, "fsdp": True, "lora": False} | changed)


def test_the_configurations_fit_and_full_weights_of_32b_on_16_gpus_do_not(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [CONFIGS / f"qwen2.5-coder-{name}.toml" for name in (*PARAMETERS, "32b-megatron")]
    with caplog.at_level("INFO", "training.sharding"), pytest.raises(SystemExit, match="2"):
        main([str(file) for file in files])
    plans = [json.loads(record.message) for record in caplog.records if record.name == "training.sharding"]
    assert [one["parameters"] for one in plans[:2]] == [PARAMETERS["7b"], PARAMETERS["14b"]]
    assert plans[2]["parameters"] - plans[2]["trainable"] == plans[3]["parameters"] == PARAMETERS["32b"]
    assert [one["world_size"] for one in plans] == [8, 8, 16, 16]
    for full in (plans[0], plans[1], plans[3]):
        assert full["parameter_bytes"] == full["gradient_bytes"] == full["parameters"] * 4 // full["world_size"]
    said = capsys.readouterr().err
    assert "qwen2.5-coder-32b-megatron.toml: it needs 80.4 GiB on each GPU, and of 80 GiB 72.0 can be used" in said
    assert "what helps most" in said


def test_every_gpu_holds_a_share_of_weights_gradients_and_both_states_of_the_optimizer() -> None:
    made = plan(TINY, sft(), EIGHT)
    assert made.parameters == made.trainable == TINY_PARAMETERS
    assert made.parameter_bytes == made.gradient_bytes == TINY_PARAMETERS * 4 // 8
    assert made.optimizer_bytes == TINY_PARAMETERS * 8 // 8
    assert not dist.is_initialized()


def test_the_first_gpu_holds_the_larger_part_of_what_cannot_be_divided_evenly() -> None:
    made = plan(TINY, sft(), Machines(gpus=3, memory_gb=80))
    assert made.parameter_bytes * 3 > TINY_PARAMETERS * 4


def test_without_fsdp_every_gpu_holds_the_whole_model() -> None:
    made = plan(TINY, sft(fsdp=False), EIGHT)
    assert (made.world_size, made.parameter_bytes, made.gathered_bytes) == (1, TINY_PARAMETERS * 4, 0)


def test_only_the_adapter_has_gradients_and_frozen_weights_have_the_precision() -> None:
    made = plan(TINY, sft(lora={"rank": 8, "alpha": 16, "targets": ["q_proj", "v_proj"]}), EIGHT)
    adapter = 2 * 8 * ((64 + 64) + (64 + 32))
    assert (made.parameters, made.trainable) == (TINY_PARAMETERS + adapter, adapter)
    assert made.gradient_bytes == adapter * 4 // 8
    assert made.parameter_bytes == TINY_PARAMETERS * 2 // 8 + adapter * 4 // 8


def test_the_loss_in_parts_holds_fewer_logits() -> None:
    whole, parts = (plan(TINY, sft(loss_tokens=one), EIGHT) for one in (None, 32))
    assert whole.loss_bytes == 4 * parts.loss_bytes == 128 * 512 * 12


def test_gradient_checkpointing_holds_one_layer_at_a_time() -> None:
    some, all_ = (plan(TINY, sft(gradient_checkpointing=one), EIGHT) for one in (True, False))
    assert all_.activation_bytes == 2 * some.layer_bytes
    assert some.activation_bytes == 2 * 128 * 64 * 2


def test_what_does_not_fit_is_refused_with_what_would_help() -> None:
    made = plan(TINY, sft(max_tokens=20_000_000), EIGHT)
    with pytest.raises(ConfigurationError, match="what helps most: loss_tokens"):
        check(made, EIGHT)
    check(plan(TINY, sft(), EIGHT), EIGHT)


@pytest.mark.parametrize(
    ("model", "changed", "says"),
    [
        ({"model_type": "unheard"}, {}, "model: .*unheard"),
        (TINY, {"lora": {"targets": ["nowhere"]}}, "lora.targets"),
    ],
)
def test_a_model_or_targets_that_are_not_known_are_a_mistake(
    model: Mapping[str, object], changed: Mapping[str, object], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        plan(model, sft(**changed), EIGHT)


def test_a_folder_with_the_shape_of_a_model_will_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert plan(tmp_path, sft(), EIGHT).parameters == TINY_PARAMETERS
    with pytest.raises(ConfigurationError, match="model"):
        plan(tmp_path / "none", sft(), EIGHT)


def test_a_mistake_in_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("[model]\n[sft]\nbase = 'x'\nmax_tokens = 0\n[machines]\ngpus = 8\nmemory_gb = 80\n")
    with pytest.raises(ConfigurationError, match=r"bad\.toml: sft\.max_tokens"):
        read_setup(file)


@pytest.mark.parametrize("size", [*PARAMETERS, "32b-megatron"])
def test_the_training_takes_the_configurations(size: str) -> None:
    config = read_config(CONFIGS / f"qwen2.5-coder-{size}.toml")
    assert (config.lora is None) == (size != "32b")
    assert (config.max_tokens, config.fsdp) == (32768, True)
    assert config.base.parent == CONFIGS / "weights"
