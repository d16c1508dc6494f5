"""Random models of a few thousand weights, written the way transformers and peft write real ones."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from pipeline.token_counts import load_tokenizer
from tests.unit.small_tokenizer import ranks, small_tokenizer
from training.tokens import ChatTokenizer

CONTEXT = 256
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def tiny_model(folder: Path, kind: str = "qwen2", seed: int = 0, layers: int = 2) -> Path:
    """Weights, tokenizer and chat template in one folder; weights so large that its texts do not repeat one token.

    Its likeliest tokens are printable: llama.cpp says nothing of a token that is a part of a character.
    """
    small_tokenizer(folder)
    reader = ChatTokenizer(folder)
    config = {"qwen2": Qwen2Config, "llama": LlamaConfig}[kind](
        vocab_size=vocabulary(folder),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for token in range(config.vocab_size):
            text = reader.answer_of([token])
            if token >= len(ranks()) or not (text.isprintable() and text.isascii()):
                model.lm_head.weight[token] = 0
    model.save_pretrained(folder)
    return folder


def tiny_adapter(folder: Path, base: Path, modules: tuple[str, ...] = ALL_LINEAR, seed: int = 1) -> Path:
    """An adapter for the model at `base`, random in both of its matrices, so that it changes what the model says."""
    model = AutoModelForCausalLM.from_pretrained(base)
    torch.manual_seed(seed)
    adapted = get_peft_model(
        model, LoraConfig(r=4, lora_alpha=16, target_modules=list(modules), init_lora_weights=False)
    )
    adapted.save_pretrained(folder)
    return folder


def vocabulary(folder: Path) -> int:
    """Tokens that the tokenizer of a folder has."""
    file = folder / "tokenizer.json"
    return load_tokenizer(file.read_text(encoding="utf-8"), file).get_vocab_size()
