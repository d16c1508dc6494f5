"""A model of tiny_models.py as a GGUF file, tokenizer and chat template included, for llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
_OTHER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def tiny_gguf(folder: Path, file: Path) -> Path:
    """The model in `folder`, qwen2 or llama, written to `file` in 32 bits."""
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(file, config["model_type"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, folder)
    for name, value in load_file(folder / "model.safetensors").items():
        writer.add_tensor(_name(name), _ordered(name, value, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _name(name: str) -> str:
    if name in _OTHER:
        return _OTHER[name]
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{_LAYER[part]}"


def _ordered(name: str, value: NDArray[np.float32], config: dict[str, object]) -> NDArray[np.float32]:
    """Rows of the queries and keys as the architecture llama has them, written out one by one."""
    if config["model_type"] != "llama" or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return value
    heads = int(str(config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]))
    width = len(value) // heads
    rows = [
        head * width + half * (width // 2) + at for head in range(heads) for at in range(width // 2) for half in (0, 1)
    ]
    return value[rows]


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    tokens = {number: (token, gguf.TokenType.NORMAL) for token, number in content["model"]["vocab"].items()}
    for added in content["added_tokens"]:
        kind = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        tokens[added["id"]] = added["content"], kind
    numbers = {token: number for number, (token, _) in tokens.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([tokens[number][0] for number in sorted(tokens)])
    writer.add_token_types([tokens[number][1] for number in sorted(tokens)])
    writer.add_token_merges([" ".join(pair) for pair in content["model"]["merges"]])
    writer.add_eos_token_id(numbers["<|im_end|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(settings["chat_template"])
