"""Conversations in the words of ShareGPT, as lines of JSON in a folder that LLaMA-Factory loads as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.exports import chat
from pipeline.exports.account import Unit
from pipeline.exports.messages import dataset_info
from pipeline.schemas import Row

FROM = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}
TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}

_ROLE = {word: role for role, word in FROM.items()}


class ShareGpt:
    """`conversations`, and the labels of chat.py."""

    format = "sharegpt"
    format_version = "1"
    unit: Unit = "trajectory_id"
    columns: tuple[str, ...] = chat.COLUMNS
    schema: pa.Schema | None = None

    def essence(self, row: Row) -> Row:
        return chat.conversation(row)

    def record(self, essence: Row, split: str, number: int) -> Row:
        told = [{"from": FROM[one["role"]], "value": one["content"]} for one in chat.messages_of(essence)]
        return {"conversations": told} | {name: essence[name] for name in chat.LABELS}

    def recovered(self, record: Row) -> Row:
        told = record["conversations"]
        assert isinstance(told, list)
        messages = [{"role": _ROLE[one["from"]], "content": one["value"]} for one in told]
        return {name: record[name] for name in chat.LABELS} | {"messages": messages}

    def companions(self, name: str, ids: Mapping[str, Sequence[str]]) -> dict[str, str]:
        return dataset_info(name, [f"{split}.jsonl" for split in ids], "conversations", TAGS)
