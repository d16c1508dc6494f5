"""Adapters as GGUF files: what is in them, and which cannot become one; tests/integration has llama.cpp read them."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from pipeline.errors import ConfigurationError
from tests.unit.tiny_gguf import tiny_gguf
from tests.unit.tiny_models import tiny_adapter, tiny_model
from training.gguf_adapter import write_gguf_adapter
from training.weight_files import weights_sha256

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: tiny_model(folder / kind, kind) for kind in ("qwen2", "llama")}


def written(base: Path, adapter: Path, file: Path) -> tuple[gguf.GGUFReader, dict[str, np.ndarray]]:
    sha256 = write_gguf_adapter(base, adapter, file)
    reader = gguf.GGUFReader(file)
    assert reader.fields["touchstone.adapter_sha256"].contents() == sha256 == weights_sha256(adapter)
    return reader, {tensor.name: tensor.data for tensor in reader.tensors}


def test_the_file_says_what_it_is_and_has_both_matrices_of_each_layer(bases: dict[str, Path], tmp_path: Path) -> None:
    adapter = tiny_adapter(tmp_path / "adapter", bases["qwen2"])
    reader, tensors = written(bases["qwen2"], adapter, tmp_path / "a.gguf")
    told = {name: reader.fields[name].contents() for name in ("general.type", "general.architecture", "adapter.type")}
    assert told == {"general.type": "adapter", "general.architecture": "qwen2", "adapter.type": "lora"}
    assert reader.fields["adapter.lora.alpha"].contents() == 16
    assert len(tensors) == 2 * 7 * 2
    stored = load_file(adapter / "adapter_model.safetensors")
    place = "base_model.model.model.layers.1.self_attn.q_proj.lora_"
    assert np.array_equal(tensors["blk.1.attn_q.weight.lora_a"], stored[f"{place}A.weight"])
    assert np.array_equal(tensors["blk.1.attn_q.weight.lora_b"], stored[f"{place}B.weight"])


def test_rows_of_queries_and_keys_are_ordered_as_the_architecture_llama_has_them(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    adapter = tiny_adapter(tmp_path / "adapter", bases["llama"])
    _, tensors = written(bases["llama"], adapter, tmp_path / "a.gguf")
    stored = load_file(adapter / "adapter_model.safetensors")
    place = "base_model.model.model.layers.0.self_attn."
    rows = stored[f"{place}k_proj.lora_B.weight"]
    # Two heads of 16 rows: the first and the second half of each take turns.
    order = [head * 16 + half * 8 + at for head in range(2) for at in range(8) for half in range(2)]
    assert np.array_equal(tensors["blk.0.attn_k.weight.lora_b"], rows[order])
    assert np.array_equal(tensors["blk.0.attn_k.weight.lora_a"], stored[f"{place}k_proj.lora_A.weight"])
    assert np.array_equal(tensors["blk.0.attn_v.weight.lora_b"], stored[f"{place}v_proj.lora_B.weight"])


def test_matrices_of_16_bits_are_carried_exactly(bases: dict[str, Path], tmp_path: Path) -> None:
    adapter = tiny_adapter(tmp_path / "adapter", bases["qwen2"], ("o_proj",))
    stored = {name: torch.tensor(value).bfloat16() for name, value in load_file(adapter / WEIGHTS).items()}
    save_file(stored, adapter / WEIGHTS)
    _, tensors = written(bases["qwen2"], adapter, tmp_path / "a.gguf")
    value = stored["base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight"]
    assert np.array_equal(tensors["blk.0.attn_output.weight.lora_a"], value.float().numpy())
    assert len(tensors) == 4


def test_the_gguf_file_of_the_base_says_as_much_as_its_folder(bases: dict[str, Path], tmp_path: Path) -> None:
    for kind, base in bases.items():
        adapter = tiny_adapter(tmp_path / kind, base)
        tiny_gguf(base, tmp_path / f"{kind}-base.gguf")
        write_gguf_adapter(base, adapter, tmp_path / f"{kind}-1.gguf")
        write_gguf_adapter(tmp_path / f"{kind}-base.gguf", adapter, tmp_path / f"{kind}-2.gguf")
        assert (tmp_path / f"{kind}-1.gguf").read_bytes() == (tmp_path / f"{kind}-2.gguf").read_bytes()
    (tmp_path / "none.gguf").write_bytes(b"GGUF of nothing")
    with pytest.raises(ConfigurationError, match=r"none\.gguf cannot be read as weights"):
        write_gguf_adapter(tmp_path / "none.gguf", tmp_path / "qwen2", tmp_path / "a.gguf")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"use_rslora": True}, "use_rslora = True; merge it"),
        ({"alpha_pattern": {"q_proj": 4}}, "alpha_pattern"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "all"}, "bias = 'all'"),
    ],
)
def test_an_adapter_that_the_file_cannot_carry_is_refused_by_the_name_of_the_setting(
    bases: dict[str, Path], tmp_path: Path, changed: dict[str, object], says: str
) -> None:
    adapter = tiny_adapter(tmp_path / "adapter", bases["qwen2"], ("q_proj",))
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(settings | changed))
    with pytest.raises(ConfigurationError, match=says):
        write_gguf_adapter(bases["qwen2"], adapter, tmp_path / "a.gguf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter"]


def test_other_architectures_layers_and_a_file_that_is_there_are_refused(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    base, file = bases["qwen2"], tmp_path / "a.gguf"
    adapter = tiny_adapter(tmp_path / "adapter", base, ("q_proj",))
    with pytest.raises(ConfigurationError, match=r"has no place for .*lm_head"):
        write_gguf_adapter(base, tiny_adapter(tmp_path / "head", base, ("lm_head",)), file)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ConfigurationError, match=r"architecture gpt2; .*for qwen2 and llama: merge"):
        write_gguf_adapter(tmp_path, adapter, file)
    file.write_text("mine")
    with pytest.raises(ConfigurationError, match="is there already"):
        write_gguf_adapter(base, adapter, file)
    assert file.read_text() == "mine"
