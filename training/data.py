"""Published rows as token ids and labels: what a trainer reads when it shall not tokenise by itself.

Of each row of a version the `messages` become one or more windows of at most `max_tokens` tokens. A folder of such an
export holds `data/<split>-00000.parquet` …, audit.json and audit.txt (the loss mask, in figures and to read), and what
every export of a version has: export.json, and refused.jsonl with the reason for each row that could not be written.

Rows come and go a batch at a time, so memory does not grow with their number. Not here: padding, packing, batches of
a trainer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.exports.account import Account, RowRefused, VersionExport
from pipeline.exports.chat import told
from pipeline.exports.folders import ExportDamaged, new_folder, prove
from pipeline.exports.published import PublishedRow, PublishedVersion, rows_of
from pipeline.types import content_id
from sandbox.locks import exclusive
from training.chat_template import Message
from training.long_rows import Window, windows
from training.loss_mask import AuditCount
from training.token_files import TokenFiles, TokenRow, by_trajectory, digest_of, read_rows
from training.tokens import ChatTokenizer, Encoded, Memo

FORMAT = "tokens"
FORMAT_VERSION = "1"
COLUMNS = ("messages",)
TOKENS = "training/tokens"
"""Below the data folder; shared by all runs."""
LONGEST_ROW = 32 * 1024 * 1024
"""Characters of all messages of a row, whose tokens are held at once."""
SMALLEST_WINDOW, LARGEST_WINDOW = 128, 512 * 1024
"""Tokens: with fewer no task has room, with more the proof of one window takes more memory than is promised."""

Made = list[tuple[Window, Encoded]]
"""The windows of a row with their tokens."""


def export_tokens(
    version: PublishedVersion, folder: Path, tokenizer: ChatTokenizer, max_tokens: int, split: str | None = None
) -> VersionExport:
    """Write the tokens of a version, or of one split of it, into a new folder; all or nothing.

    Raises NothingToExport for a split that is not there and when no row can be carried, ConfigurationError when
    `folder` is there and not empty or the window is of no use, ExportDamaged, SnapshotDamaged.
    """
    if not SMALLEST_WINDOW <= max_tokens <= LARGEST_WINDOW:
        raise ConfigurationError(f"a window has {SMALLEST_WINDOW} to {LARGEST_WINDOW} tokens, not {max_tokens}")
    splits = version.chosen(split)
    account, count = Account(version, "trajectory_id"), AuditCount(tokenizer, max_tokens)
    with new_folder(folder) as part:
        for name in splits:
            with TokenFiles(part, name) as files:
                for found in rows_of(version, COLUMNS, name):
                    _take(found, files, account, count)
            prove(f"data/{name}", by_trajectory(read_rows(part, name)), account.expected(name))
        audit = count.audit()
        if audit.turns_proved != audit.turns:
            raise ExportDamaged(f"{audit.turns - audit.turns_proved} turns are not learned exactly once")
        (part / "audit.json").write_text(json.dumps(audit.model_dump(), indent=1) + "\n", encoding="ascii")
        (part / "audit.txt").write_text(count.sample(), encoding="utf-8")
        made = account.close(part, format=FORMAT, format_version=FORMAT_VERSION, splits=splits)
    return made.model_copy(update={"folder": str(folder)})


def tokens_of(data: Path, version: PublishedVersion, tokenizer: ChatTokenizer, max_tokens: int) -> Path:
    """The folder below `data` with the tokens of a version, made where it is not there. Raises as `export_tokens`."""
    named = content_id("tokens", version.manifest.content_sha256, tokenizer.tokenizer_id, max_tokens)
    folder = data / TOKENS / named
    with exclusive(data.resolve() / "locks" / f"{named}.lock", f"the tokens of {version.reference}"):
        if not folder.is_dir():
            export_tokens(version, folder, tokenizer, max_tokens)
    return folder


def _take(found: PublishedRow, files: TokenFiles, account: Account, count: AuditCount) -> None:
    """One row of the version: into the files and the audit, or refused."""
    try:
        told = _messages(found)
        messages = count.tokenizer.template.as_given(told)
        made = _encoded(messages, count.tokenizer, count.max_tokens)
        rows = [_token_row(found, made, number, count.tokenizer.tokenizer_id) for number in range(len(made))]
        account.carry(found, found.trajectory_id, digest_of(rows))
    except RowRefused as error:
        account.refuse(found, error)
        return
    for row in rows:
        files.write(row)
    trimmed = sum(one != other for one, other in zip(told, messages, strict=True))
    count.row(found.trajectory_id, messages, made, trimmed)


def _encoded(messages: Sequence[Message], tokenizer: ChatTokenizer, max_tokens: int) -> Made:
    """All windows of a row, each proved. Raises RowRefused."""
    memo: Memo = {}
    parts = windows(messages, tokenizer, max_tokens, memo)
    return [(window, window.encode(tokenizer, memo)) for window in parts]


def _token_row(found: PublishedRow, made: Made, number: int, tokenizer_id: str) -> TokenRow:
    encoded = made[number][1]
    return TokenRow(
        trajectory_id=found.trajectory_id,
        split=found.split,
        window=number,
        n_windows=len(made),
        n_tokens=encoded.n_tokens,
        n_target_tokens=encoded.n_target_tokens,
        tokenizer_id=tokenizer_id,
        input_ids=encoded.input_ids(),
        labels=encoded.labels(),
    )


def _messages(found: PublishedRow) -> list[Message]:
    """The messages of a row. Raises RowRefused when there are none, or one has no known role or no text."""
    if found.row is None:
        raise RowRefused("not_utf8", "a text of it is no valid UTF-8")
    messages: list[Message] = [*told(found.row.get("messages"))]
    if (characters := sum(len(message["content"]) for message in messages)) > LONGEST_ROW:
        raise RowRefused("row_too_long", f"it has {characters} characters; {LONGEST_ROW} are read")
    return messages
