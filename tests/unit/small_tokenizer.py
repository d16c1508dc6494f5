"""A byte-pair tokenizer of a few dozen merges with the control tokens, the pattern and the template of Qwen2.5."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from training.qwen_tokenizer import CHAT_TEMPLATE, tokenizer

_MERGED = (
    *("\n\n", "\n\n\n", "  ", "    ", "us", "er", "user", "as", "si", "st", "assi", "assist", "an", "ant", "assistant"),
    *("im", "end", "do", "ne", "done", " d", " done", "ls", "x" * 2, "x" * 4, "x" * 8, "x" * 16, "00", " l"),
)

THINKING = """\
{%- for message in messages %}
    {{- "<|im_start|>" + message.role + "\\n" }}
    {{- "<think>\\n\\n</think>\\n\\n" if message.role == "assistant" and loop.last }}
    {{- message.content + "<|im_end|>\\n" }}
{%- endfor %}
{{- "<|im_start|>assistant\\n" if add_generation_prompt }}
"""
"""Thoughts stand in the last turn only, as in templates of models that think."""


@cache
def ranks() -> dict[bytes, int]:
    """Every byte, then the merges, which build on each other."""
    whole = [bytes([byte]) for byte in range(256)]
    for text in _MERGED:
        token = text.encode()
        while token not in whole:
            made = [first + second for first in whole for second in whole if token.startswith(first + second)]
            whole.append(max(made, key=len))
    return {token: rank for rank, token in enumerate(whole)}


def small_tokenizer(folder: Path, template: str | None = CHAT_TEMPLATE, **changed: object) -> Path:
    """The folder, with the fields of tokenizer.json that were `changed`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(ranks()) | changed), encoding="utf-8")
    settings = {"eos_token": {"content": "<|im_end|>"}} | ({} if template is None else {"chat_template": template})
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
