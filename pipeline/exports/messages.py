"""Conversations as OpenAI messages in Parquet: one file that TRL, verl's SFT and LLaMA-Factory read as it is.

There is no column `tools`: our agents write what they do as text, and no encoding of "no tools" suits all three (verl
hands a JSON text to the chat template, which refuses it). dataset_info.json names LLaMA-Factory's converter `sharegpt`
with the words of OpenAI: its own converter `openai` adds a sentence to every system prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.columns import MESSAGES, TEXT
from pipeline.exports import chat
from pipeline.exports.account import Unit
from pipeline.schemas import Row

TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function_call",
    "system_tag": "system",
}


class Messages:
    """`messages`, and the labels of chat.py."""

    format = "messages"
    format_version = "1"
    unit: Unit = "trajectory_id"
    columns: tuple[str, ...] = chat.COLUMNS
    schema: pa.Schema | None = pa.schema([("messages", MESSAGES), *((name, TEXT) for name in chat.LABELS)])

    def essence(self, row: Row) -> Row:
        return chat.conversation(row)

    def record(self, essence: Row, split: str, number: int) -> Row:
        return essence

    def recovered(self, record: Row) -> Row:
        return record

    def companions(self, name: str, ids: Mapping[str, Sequence[str]]) -> dict[str, str]:
        return dataset_info(name, [f"{split}.parquet" for split in ids], "messages", TAGS)


def dataset_info(name: str, files: Sequence[str], column: str, tags: Mapping[str, str]) -> dict[str, str]:
    """What LLaMA-Factory reads of a folder: a data set NAME_SPLIT for each file."""
    found = {
        f"{name}_{file.partition('.')[0]}": {
            "file_name": file,
            "formatting": "sharegpt",
            "columns": {"messages": column},
            "tags": dict(tags),
        }
        for file in files
    }
    return {"dataset_info.json": json.dumps(found, indent=1) + "\n"}
