"""The tokenizer of Qwen2.5 from the vocabulary that the Python package dashscope carries: nothing comes from a hub.

    pip download --no-deps dashscope
    python -m training.qwen_tokenizer dashscope-….whl FOLDER

FOLDER then holds tokenizer.json and tokenizer_config.json as other programs read them. The wheel is opened as an
archive; none of its code is installed or run. The package has the ranks of the byte pairs only, so the merges are found
again from the ranks, and what else makes the ids (the pattern that splits words, NFC, the control tokens) is written
here. The chat template is ChatML with the model's own default system prompt; it takes no definitions of tools.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import logging
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.exports.folders import new_folder

RANKS = "dashscope/resources/qwen.tiktoken"
"""Path of the vocabulary in the wheel."""
RANKS_SHA256 = "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186"
"""Of that file; the ids below it are facts about these bytes only."""

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
"""What byte pairs are never merged across: contractions, words, single digits, signs, line ends, other blanks."""

_CONTROL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
"""In the order of their ids, which follow the vocabulary's."""
_PLAIN = (
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
"""Tokens of their own too, but not left out when a decoder skips control tokens."""

CHAT_TEMPLATE = """\
{%- if messages[0].role != "system" %}
    {{- "<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "tool" %}
        {{- "<|im_start|>user" if loop.first or loop.previtem.role != "tool" }}
        {{- "\\n<tool_response>\\n" + message.content + "\\n</tool_response>" }}
        {{- "<|im_end|>\\n" if loop.last or loop.nextitem.role != "tool" }}
    {%- elif message.role in ["system", "user", "assistant"] %}
        {{- "<|im_start|>" + message.role + "\\n" + message.content + "<|im_end|>\\n" }}
    {%- else %}
        {{- raise_exception("the role " + message.role + " is not known") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
{%- endif %}
"""

log = logging.getLogger(__name__)


def write_tokenizer(source: Path, folder: Path) -> str:
    """Write the tokenizer made from `source`, a dashscope wheel or its qwen.tiktoken; the sha256 of its tokenizer.json.

    Raises ConfigurationError when `source` is something else or `folder` is there and not empty.
    """
    text = json.dumps(tokenizer(_ranks(source)), ensure_ascii=False, indent=1) + "\n"
    settings = json.dumps(_settings(), ensure_ascii=False, indent=1) + "\n"
    with new_folder(folder) as part:
        (part / "tokenizer.json").write_text(text, encoding="utf-8")
        (part / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def tokenizer(ranks: Mapping[bytes, int]) -> dict[str, object]:
    """The fields of tokenizer.json for these byte pairs (bytes of a token -> its id, in the order of the merges)."""
    shown = _byte_signs()
    names = {token: "".join(shown[byte] for byte in token) for token in ranks}
    ordered = sorted(ranks, key=ranks.__getitem__)
    merges = [[names[part] for part in _halves(token, ranks)] for token in ordered if len(token) > 1]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(first, len(ranks) + place) for place, first in enumerate(_CONTROL + _PLAIN)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {names[token]: ranks[token] for token in ordered},
            "merges": merges,
        },
    }


def _added(content: str, number: int) -> dict[str, object]:
    return {
        "id": number,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": content in _CONTROL,
    }


def _settings() -> dict[str, object]:
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": False,
        "errors": "replace",
        "model_max_length": 32768,
        "additional_special_tokens": list(_CONTROL[1:]),
        "chat_template": CHAT_TEMPLATE,
    }


def _halves(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """The two tokens that are merged into this one: what the earlier merges leave of its bytes."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [ranks.get(left + right, len(ranks)) for left, right in pairwise(parts)]
        first = min(pairs)
        if first >= ranks[token]:
            break
        place = pairs.index(first)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    if len(parts) != 2:
        raise ConfigurationError(f"the vocabulary has no merge that makes {token!r}")
    return parts


def _byte_signs() -> dict[int, str]:
    """The printable sign that stands for each byte in a vocabulary of byte pairs; others begin at U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + place) for place, byte in enumerate(others)}


def _ranks(source: Path) -> dict[bytes, int]:
    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as wheel:
                content = wheel.read(RANKS)
        else:
            content = source.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigurationError(f"{source}: {RANKS} cannot be read from it ({error})") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != RANKS_SHA256:
        raise ConfigurationError(f"{source}: its vocabulary is not the one these ids are known for (sha256 {sha256})")
    try:
        return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
    except (ValueError, binascii.Error) as error:
        raise ConfigurationError(f"{source}: a line of its vocabulary cannot be read ({error})") from error


def main() -> None:
    """Write the folder named on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m training.qwen_tokenizer", description="Make Qwen2.5's tokenizer.")
    parser.add_argument("source", type=Path, help="a wheel of dashscope, or the qwen.tiktoken in it")
    parser.add_argument("folder", type=Path, help="where to write; not there yet, or empty")
    arguments = parser.parse_args()
    try:
        sha256 = write_tokenizer(arguments.source, arguments.folder)
    except ConfigurationError as error:
        parser.exit(2, f"{error}\n")
    log.info("%s: tokenizer.json has sha256 %s", arguments.folder, sha256)


if __name__ == "__main__":
    main()
