"""Conversations as texts, one a line, for Megatron-LM's tools/preprocess_data.py.

A text is the conversation in ChatML, with no system prompt that the row has not. Document n of what the tool makes is
line n, whose id is line n of SPLIT.ids.txt: the tool keeps nothing but the texts. In a text a message that holds the
marks of ChatML could not be told from two messages, so that row is refused. What the tool makes is learned whole, and
observations with it; training/megatron.py makes of these texts what Megatron's own SFT learns the assistant's part of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.exports import chat
from pipeline.exports.account import RowRefused, Unit
from pipeline.schemas import Row

_BEGIN, _END = "<|im_start|>", "<|im_end|>"


class Megatron:
    """`text`, and the labels of chat.py, which the tool does not read."""

    format = "megatron"
    format_version = "1"
    unit: Unit = "trajectory_id"
    columns: tuple[str, ...] = chat.COLUMNS
    schema: pa.Schema | None = None

    def essence(self, row: Row) -> Row:
        found = chat.conversation(row)
        for number, message in enumerate(chat.messages_of(found)):
            for mark in (_BEGIN, _END):
                if mark in message["content"]:
                    raise RowRefused("control_tokens", f"message {number} holds {mark}, which ends or begins a message")
        return found

    def record(self, essence: Row, split: str, number: int) -> Row:
        told = [f"{_BEGIN}{one['role']}\n{one['content']}{_END}\n" for one in chat.messages_of(essence)]
        return {"text": "".join(told)} | {name: essence[name] for name in chat.LABELS}

    def recovered(self, record: Row) -> Row:
        told = [part.removeprefix(_BEGIN).partition("\n") for part in str(record["text"]).split(f"{_END}\n")[:-1]]
        messages = [{"role": role, "content": content} for role, _, content in told]
        return {name: record[name] for name in chat.LABELS} | {"messages": messages}

    def companions(self, name: str, ids: Mapping[str, Sequence[str]]) -> dict[str, str]:
        return {f"{split}.ids.txt": "".join(f"{one}\n" for one in found) for split, found in ids.items()}
