"""A model of Qwen2's architecture with some ten thousand random weights and the small tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.unit.small_tokenizer import ranks, small_tokenizer


def tiny_model(folder: Path, seed: int = 0) -> Path:
    """The folder, as a folder of weights from elsewhere."""
    small_tokenizer(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(ranks()) + 32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder
