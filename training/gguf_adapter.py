"""An adapter of peft as a GGUF file, which llama.cpp adds to weights that it has loaded ([model] adapter).

The file is what llama.cpp's own converter makes: the two matrices of each layer under llama.cpp's name of the weights
that they belong to, and the factor alpha, which is divided by the rank when they are added. It holds no base weights
and fits any quantisation of the base. Architectures: those whose names and order of rows are known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from pipeline.errors import ConfigurationError
from training.weight_files import ADAPTER, weights_sha256

ARCHITECTURES = ("qwen2", "llama")
"""model_type of the base weights' config.json, and llama.cpp's name of it."""
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_KEY = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.([a-z_.]+)\.lora_([AB])\.weight")
_HEADS = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
"""Weights whose rows llama.cpp orders otherwise in the architecture llama, and the setting with their heads."""
_GGUF_HEADS = ("head_count", "head_count_kv")
_PLAIN: Mapping[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "use_rslora": (False, None),
    "alpha_pattern": ({}, None),
    "modules_to_save": ([], None),
    "fan_in_fan_out": (False, None),
}
"""Settings of an adapter that the file can carry: one factor for all matrices, and nothing but matrices."""

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class _Base:
    """What the base weights say of themselves."""

    architecture: str
    heads: Mapping[str, int]
    """Of the weights whose rows may be ordered otherwise."""


def write_gguf_adapter(base: Path, adapter: Path, file: Path) -> str:
    """Write the adapter of a folder, trained on the weights `base`; the adapter's sha256 (weight_files.py).

    `base` is a folder as transformers writes it, or the GGUF file that the adapter is going to be added to. Raises
    ConfigurationError for another architecture, for an adapter that such a file cannot carry, and when `file` is there.
    """
    settings = _json(adapter / "adapter_config.json")
    told = _of_gguf(base) if base.is_file() else _of_folder(base)
    if told.architecture not in ARCHITECTURES:
        raise ConfigurationError(
            f"{base} is of the architecture {told.architecture}; adapters become GGUF files for "
            f"{' and '.join(ARCHITECTURES)}: merge this one and serve the merged weights"
        )
    for name, carried in _PLAIN.items():
        if settings.get(name) not in carried:
            raise ConfigurationError(
                f"{adapter}: a GGUF file cannot carry an adapter with {name} = {settings[name]!r}; merge it and serve "
                "the merged weights"
            )
    tensors = list(_tensors(adapter, told))
    sha256 = weights_sha256(adapter)
    if file.exists():
        raise ConfigurationError(f"{file} is there already; name a file that is not there yet")
    part = file.with_name(f".{file.name}.part")
    try:
        _write(part, told.architecture, float(str(settings["lora_alpha"])), sha256, tensors)
        part.rename(file)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return sha256


def _of_folder(base: Path) -> _Base:
    config = _json(base / "config.json")
    heads = {name: int(str(config[setting])) for name, setting in _HEADS.items() if setting in config}
    return _Base(str(config.get("model_type")), heads)


def _of_gguf(base: Path) -> _Base:
    try:
        fields = gguf.GGUFReader(base).fields
        architecture = str(fields["general.architecture"].contents())
        queries, keys = (int(fields[f"{architecture}.attention.{name}"].contents()) for name in _GGUF_HEADS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{base} cannot be read as weights of a language model ({error})") from error
    return _Base(architecture, {"attn_q": queries, "attn_k": keys})


def _tensors(adapter: Path, base: _Base) -> Iterator[tuple[str, Matrix]]:
    try:
        found = load_file(adapter / ADAPTER)
    except (OSError, SafetensorError) as error:
        raise ConfigurationError(f"{adapter / ADAPTER} cannot be read ({error})") from error
    for key in sorted(found):
        match = _KEY.fullmatch(key)
        name = _NAMES.get(match[2]) if match else None
        if match is None or name is None:
            raise ConfigurationError(
                f"{adapter}: a GGUF file has no place for {key}; adapt attention and MLP layers only, or merge it"
            )
        matrix = found[key].float().numpy()
        if base.architecture == "llama" and name in _HEADS and match[3] == "B":
            matrix = _turned(matrix, base.heads[name])
        yield f"blk.{match[1]}.{name}.weight.lora_{match[3].lower()}", matrix


def _turned(matrix: Matrix, heads: int) -> Matrix:
    """Rows of each head as llama.cpp rotates them: pairs beside each other, and not halves one after the other."""
    halves = matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(matrix.shape))


def _write(file: Path, architecture: str, alpha: float, sha256: str, tensors: list[tuple[str, Matrix]]) -> None:
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_string("touchstone.adapter_sha256", sha256)
    for name, matrix in tensors:
        writer.add_tensor(name, matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _json(file: Path) -> dict[str, object]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"{file} holds no settings")
    return content
