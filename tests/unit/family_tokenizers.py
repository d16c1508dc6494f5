"""Small tokenizers of three families, each with its family's control tokens, way of cutting words, and chat template.

Every prefix of a word of `_WORDS` is a token, so that what is read stays readable. The templates are written here in
the manner of their families: what makes the real ones hard is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.qwen_tokenizer import CHAT_TEMPLATE, tokenizer

_WORDS = (
    *("user", "assistant", "system", "tool_response", "im_start", "im_end", "eot_id", "start_header_id", "/s", "INST"),
    *("\n\n", "```", "ls", "echo", "cat", "done", "List", "Be", "You", "[exit", "[exit code", "hi", "x" * 8),
    *(" it", " brief", " -l", " a", " b", " are", " code", " exit", " 0", " hi", " echo", " done", " List", " You"),
    *(" ls", " cat", " Be", " ", "  "),
)

LLAMA_WORDS = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
LLAMA_TEMPLATE = """\
{%- for message in messages %}
    {%- if message.role not in ["system", "user", "assistant", "tool"] %}
        {{- raise_exception("no role " + message.role) }}
    {%- endif %}
    {{- bos_token if loop.first }}
    {{- "<|start_header_id|>" + ("ipython" if message.role == "tool" else message.role) + "<|end_header_id|>\\n\\n" }}
    {{- message.content | trim + "<|eot_id|>" }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|start_header_id|>assistant<|end_header_id|>\\n\\n" }}{% endif %}
"""
"""Trims every text, and writes a role between two control tokens."""

_MISTRAL = """\
{%- if messages[0].role == "system" %}
    {%- set system, turns = messages[0].content, messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message.role != ("assistant" if loop.index0 % 2 else "user") %}
        {{- raise_exception("user and assistant must alternate") }}
    {%- endif %}
    {%- if message.role == "user" %}
        {{- "[INST] " + (system + "\\n\\n" if system is defined and (WHICH) else "") + message.content + "[/INST]" }}
    {%- else %}
        {{- " " + message.content | trim + eos_token }}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_TEMPLATE = _MISTRAL.replace("WHICH", "loop.first")
"""Folds the system prompt into the user's first text, trims the assistant's, begins it with a space that is not in its
prompt, and knows no tools."""
MISTRAL_LAST_TEMPLATE = _MISTRAL.replace("WHICH", "message == (turns | selectattr('role', 'eq', 'user') | list)[-1]")
"""As later versions do: into the last."""


@dataclass(frozen=True)
class Family:
    """One family: its folder, the control token that ends a turn, and the bytes or the name of each token."""

    folder: Path
    end: str
    tokens: Mapping[int, bytes]

    def shown(self, number: int) -> str:
        """A token, that of a part of a character as its bytes."""
        try:
            return self.tokens[number].decode()
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in self.tokens[number])


def qwen(folder: Path) -> Family:
    """Bytes in pairs, composed accents, a system prompt that the template adds, results of tools in one turn."""
    ranks = _ranks()
    fields = tokenizer(ranks)
    _write(folder, fields, CHAT_TEMPLATE, "<|im_end|>", pad="<|endoftext|>")
    return Family(folder, "<|im_end|>", _with_control(ranks, fields))


def llama(folder: Path) -> Family:
    """Bytes in pairs, whole words before merges, three digits at once; read by itself a text would begin with bos."""
    ranks = _ranks()
    names = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    fields = tokenizer(ranks) | {"normalizer": None, "added_tokens": _added(names, len(ranks))}
    fields["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA_WORDS  # type: ignore[index]
    fields["model"]["ignore_merges"] = True  # type: ignore[index]
    fields["post_processor"] = _begins_with(names[0], len(ranks))
    _write(folder, fields, LLAMA_TEMPLATE, "<|eot_id|>", "<|begin_of_text|>")
    return Family(folder, "<|eot_id|>", _with_control(ranks, fields))


def mistral(folder: Path, template: str = MISTRAL_TEMPLATE) -> Family:
    """SentencePiece: spaces as signs, one before the first word, single bytes for what is not known."""
    control = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    known = [word for word in _WORDS if "\n" not in word]
    words = [word.replace(" ", "▁") for word in (*(f" {word}" for word in known), *known)]
    prefixes = list(dict.fromkeys(word[:end] for word in words for end in range(2, len(word) + 1)))
    letters = sorted({*map(chr, range(0x21, 0x7F)), "▁", "é"})
    vocabulary = {token: number for number, token in enumerate((*control, *bytes_, *letters, *prefixes))}
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    fields: dict[str, object] = {
        "version": "1.0",
        "added_tokens": _added(control, 0),
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        "post_processor": _begins_with("<s>", 1),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                *({"type": kind} for kind in ("ByteFallback", "Fuse")),
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": model | {"vocab": vocabulary, "merges": [[token[:-1], token[-1]] for token in prefixes]},
    }
    _write(folder, fields, template, "</s>", "<s>")
    tokens = {number: token.encode() for token, number in vocabulary.items()}
    return Family(folder, "</s>", tokens | {len(control) + byte: bytes([byte]) for byte in range(256)})


def _ranks() -> dict[bytes, int]:
    prefixes = [word.encode()[:end] for word in _WORDS for end in range(2, len(word) + 1)]
    return {token: rank for rank, token in enumerate(dict.fromkeys([*(bytes([one]) for one in range(256)), *prefixes]))}


def _with_control(ranks: Mapping[bytes, int], fields: Mapping[str, object]) -> dict[int, bytes]:
    added = fields["added_tokens"]
    assert isinstance(added, list)
    return {rank: token for token, rank in ranks.items()} | {one["id"]: one["content"].encode() for one in added}


def _added(names: Sequence[str], first: int) -> list[dict[str, object]]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": first + place, "content": name, "special": True, **plain} for place, name in enumerate(names)]


def _begins_with(name: str, number: int) -> dict[str, object]:
    first = [{"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    known = {name: {"id": name, "ids": [number], "tokens": [name]}}
    return {"type": "TemplateProcessing", "single": first, "pair": first, "special_tokens": known}


def _write(
    folder: Path, fields: Mapping[str, object], template: str, end: str, bos: str | None = None, pad: str | None = None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(fields), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": end, "pad_token": pad}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}), encoding="utf-8")
