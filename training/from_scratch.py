"""A tiny model of Qwen2's architecture with random weights and a tokenizer of its own, for experiments on a CPU.

The byte pairs are learned from the texts that are given, so that a word of a game is one token; a line that all of a
kind have is one, too, for it says nothing. The template has a token for who speaks and one for the end of an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import Field
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM

from pipeline.types import Record

_CONTROL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|' + message.role + '|>' + message.content }}"
    "{%- if message.role == 'assistant' %}{{- '<|end|>' }}{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)
_WORDS = r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s"
"""What byte pairs are never merged across."""


class TinyConfig(Record):
    """Sizes of the model."""

    vocabulary: int = Field(default=1024, ge=300)
    """Byte pairs at most, the 256 bytes and the control tokens included."""
    hidden: int = Field(default=128, gt=0)
    layers: int = Field(default=4, gt=0)
    heads: int = Field(default=4, gt=0)
    context: int = Field(default=4096, gt=0)
    """Tokens."""


def make_tiny(folder: Path, kinds: Sequence[Sequence[str]], config: TinyConfig, seed: int) -> Path:
    """The folder, with weights and tokenizer as other programs read them; equal arguments give equal files.

    `kinds` are texts that will be read, those that come of one prompt together.
    """
    tokenizer = Tokenizer(models.BPE())
    whole = sorted(set().union(*map(_everywhere, kinds)), key=lambda line: (-len(line), line))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join([*map(re.escape, whole), _WORDS])), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=list(_CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for texts in kinds for text in texts), trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": {"content": "<|end|>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    torch.manual_seed(seed)
    shape = Qwen2Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=config.hidden,
        intermediate_size=4 * config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=config.context,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(shape).save_pretrained(folder)
    return folder


def _everywhere(texts: Sequence[str]) -> set[str]:
    """Lines of more than one word that all texts have."""
    return {line for line in set.intersection(*(set(text.split("\n")) for text in texts)) if " " in line}
