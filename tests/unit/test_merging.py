"""Merged weights: they say what base and adapter said together, or there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft.tuners.lora import Linear
from transformers import AutoModelForCausalLM

from pipeline.errors import ConfigurationError
from pipeline.llm.protocol import Message, Sampling
from tests.unit.tiny_models import tiny_adapter, tiny_model
from training.merging import MergeDamaged, merge
from training.policy import open_model

ASK = [Message(role="user", content="list us")]
GREEDY = Sampling(max_tokens=20, token_details=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture(scope="module")
def adapter(base: Path) -> Path:
    return tiny_adapter(base.with_name("adapter"), base)


def test_the_merged_model_is_a_folder_of_its_own_that_says_the_same(base: Path, adapter: Path, tmp_path: Path) -> None:
    merge(base, adapter, tmp_path / "merged")
    merged = open_model("merged", tmp_path / "merged").complete(ASK, GREEDY)
    adapted = open_model("adapted", base, adapter).complete(ASK, GREEDY)
    assert merged.completion_token_ids == adapted.completion_token_ids
    assert merged.logprobs == pytest.approx(adapted.logprobs, abs=1e-3)
    assert merged.text != open_model("base", base).complete(ASK, GREEDY).text
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]


def test_weights_of_16_bits_stay_so(base: Path, adapter: Path, tmp_path: Path) -> None:
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(tmp_path / "short")
    merge(tmp_path / "short", adapter, tmp_path / "merged", tokenizer=base)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype="auto")
    assert merged.dtype == torch.bfloat16
    assert (tmp_path / "merged" / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_a_merge_that_changes_what_is_said_leaves_nothing(
    base: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta = Linear.get_delta_weight
    monkeypatch.setattr(Linear, "get_delta_weight", lambda layer, name: delta(layer, name) * 0.9)
    with pytest.raises(MergeDamaged, match=r"logits differ by .* standard deviations"):
        merge(base, adapter, tmp_path / "merged")
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_of_another_model_is_refused_and_leaves_nothing(base: Path, tmp_path: Path) -> None:
    deeper = tiny_model(tmp_path / "deeper", layers=3)
    with pytest.raises(ConfigurationError, match=r"is of another model: .*layers.2"):
        merge(base, tiny_adapter(tmp_path / "adapter", deeper), tmp_path / "merged")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "deeper"]


def test_a_folder_that_is_not_empty_is_left_alone(base: Path, adapter: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not empty"):
        merge(base, adapter, base)
