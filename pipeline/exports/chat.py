"""The conversation of a row as every trainer takes it: the one rule of the formats that carry conversations.

    [system] user assistant {user|tool assistant}

LLaMA-Factory empties a conversation of any other order without an error, and an answer is what there is to learn from.
Two messages of one role could be joined, but where one ended would be lost, so such a row is refused. Texts are carried
as they are, the empty one too, and also the marks that a chat template uses itself, like `<|im_start|>`: most
tokenizers read them as marks wherever they stand, unless told to split special tokens.
"""

from __future__ import annotations

from pipeline.exports.account import RowRefused
from pipeline.schemas import Row

COLUMNS = ("trajectory_id", "instance_id", "repository_id", "domain", "language", "family", "difficulty", "messages")
LABELS = ("trajectory_id", "instance_id", "repository_id", "domain", "language", "family", "difficulty")
"""What stands beside a conversation, to choose rows by and to find them again."""

ROLES = ("system", "user", "assistant", "tool")
"""No other text is taken for one: chat templates write a role as it stands, between their control tokens."""


def conversation(row: Row) -> Row:
    """The labels and the messages of a row. Raises RowRefused for an order that trainers do not take."""
    messages = told(row.get("messages"))
    _check_order([message["role"] for message in messages])
    labels = {name: _label(row.get(name)) for name in LABELS}
    return labels | {"messages": [{"role": one["role"], "content": one["content"]} for one in messages]}


def told(messages: object) -> list[dict[str, str]]:
    """The messages of a row as they stand.

    Raises RowRefused when there are none, or one has no known role or no text.
    """
    if not isinstance(messages, list) or not messages:
        raise RowRefused("no_messages", "it has no messages")
    for number, message in enumerate(messages):
        if message is None or message["role"] not in ROLES:
            role = None if message is None else message["role"]
            raise RowRefused("unknown_role", f"message {number} is of the role {role!r}, none of {', '.join(ROLES)}")
        if message["content"] is None:
            raise RowRefused("no_content", f"message {number} has no text, not even an empty one")
    return messages


def messages_of(essence: Row) -> list[dict[str, str]]:
    """The messages of what `conversation` gave."""
    messages = essence["messages"]
    assert isinstance(messages, list)
    return messages


def _check_order(roles: list[str]) -> None:
    skipped = 1 if roles[0] == "system" else 0
    turns = roles[skipped:]
    for number, role in enumerate(turns):
        expected = ("assistant",) if number % 2 else ("user", "tool") if number else ("user",)
        if role not in expected:
            before = "at the beginning" if number == 0 else f"after {turns[number - 1]}"
            raise RowRefused("not_alternating", f"message {number + skipped} is of the role {role}, {before}")
    if len(turns) % 2 or not turns:
        raise RowRefused("no_answer", "it does not end with an answer of the assistant")


def _label(value: object) -> str:
    # A column that begins with nulls is taken for one without a type by readers that guess.
    return "" if value is None else str(value)
