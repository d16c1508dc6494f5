"""Published rows as token ids and labels: what a trainer reads when it shall not tokenise by itself.

Of each row of a version the `messages` become one or more windows of at most `max_tokens` tokens. A folder of such an
export holds `data/<split>-00000.parquet` …, refused.jsonl (rows that cannot be written, with the reason), audit.json
and audit.txt (the loss mask, in figures and to read), and export.json, which is written last: every row that was read
is in the files or refused.

Rows come and go one at a time, so memory does not grow with their number. Not here: padding, packing and batches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.exports.folders import new_folder
from pipeline.types import Record
from training.chat_template import Message
from training.long_rows import Window, windows
from training.loss_mask import AuditCount
from training.token_files import ExportDamaged, TokenFile, TokenFiles, TokenRow, read_ids
from training.tokens import ChatTokenizer, Encoded, Memo

COLUMNS = ("trajectory_id", "messages", "split")
"""Read of each row; a version without `split` has the training split only."""
SMALLEST_WINDOW = 128
TRAIN = "train"
REFUSED = "refused.jsonl"


@dataclass(frozen=True)
class Source:
    """The rows of a published version, or of one split of it."""

    name: str
    version: str
    content_sha256: str
    split: str | None
    rows: int | None
    """How many rows there are, where that is known without reading them."""
    batches: Iterable[pa.RecordBatch]


class TokenExport(Record):
    """What export.json holds."""

    format: str = "tokens"
    folder: str
    snapshot: str
    version: str
    content_sha256: str
    split: str | None
    """None: all of them."""
    tokenizer_id: str
    max_tokens: int
    rows_read: int
    rows_written: int
    rows_refused: int
    windows: int
    n_tokens: int
    n_target_tokens: int
    files: tuple[TokenFile, ...]


def export_tokens(source: Source, folder: Path, tokenizer: ChatTokenizer, max_tokens: int) -> TokenExport:
    """Write the export, all or nothing.

    Raises ConfigurationError when `folder` is there and not empty or the window is too small, ExportDamaged when what
    was written is not what was read.
    """
    if max_tokens < SMALLEST_WINDOW:
        raise ConfigurationError(f"--max-tokens {max_tokens}: a window has at least {SMALLEST_WINDOW} tokens")
    with new_folder(folder) as part:
        read, files, count = _write(source, part, tokenizer, max_tokens)
        audit = count.audit()
        refused = _prove(part, read, files)
        if source.rows not in (None, read.total()):
            raise ExportDamaged(f"{source.name} {source.version} has {source.rows} rows; {read.total()} were read")
        if audit.turns_proved != audit.turns or audit.n_tokens != sum(file.n_tokens for file in files):
            raise ExportDamaged(f"{folder}: {audit.turns_proved} of {audit.turns} turns were found to be learned once")
        export = TokenExport(
            folder=str(folder),
            snapshot=source.name,
            version=source.version,
            content_sha256=source.content_sha256,
            split=source.split,
            tokenizer_id=tokenizer.tokenizer_id,
            max_tokens=max_tokens,
            rows_read=read.total(),
            rows_written=audit.rows,
            rows_refused=refused,
            windows=audit.windows,
            n_tokens=audit.n_tokens,
            n_target_tokens=audit.n_target_tokens,
            files=files,
        )
        (part / "audit.json").write_text(_json(audit), encoding="utf-8")
        (part / "audit.txt").write_text(count.sample(), encoding="utf-8")
        (part / "export.json").write_text(_json(export), encoding="utf-8")
    return export


def _write(
    source: Source, part: Path, tokenizer: ChatTokenizer, max_tokens: int
) -> tuple[Counter[str], tuple[TokenFile, ...], AuditCount]:
    """Every row into the files or into the list of the refused; the ids read, the files, and the audit so far."""
    files, count = TokenFiles(part), AuditCount(tokenizer, max_tokens)
    read: Counter[str] = Counter()
    try:
        with (part / REFUSED).open("w", encoding="utf-8") as refused:
            for trajectory_id, split, cell in _rows(source.batches):
                read[trajectory_id] += 1
                try:
                    messages = _messages(cell)
                    made = _encoded(messages, tokenizer, max_tokens)
                except ItemRejected as error:
                    count.refused[error.failure_class] += 1
                    refused.write(_refusal(trajectory_id, error))
                    continue
                for number, (window, encoded) in enumerate(made):
                    count.window(trajectory_id, number, len(made), window, encoded)
                    files.add(_token_row(trajectory_id, split, number, len(made), encoded, tokenizer.tokenizer_id))
                count.row(messages, [window for window, _ in made])
        return read, files.close(), count
    finally:
        files.abandon()


def _encoded(messages: Sequence[Message], tokenizer: ChatTokenizer, max_tokens: int) -> list[tuple[Window, Encoded]]:
    """All windows of a row, each proved. Raises ItemRejected."""
    memo: Memo = {}
    parts = windows(messages, tokenizer, max_tokens, memo)
    return [(window, window.encode(tokenizer, memo)) for window in parts]


def _token_row(trajectory_id: str, split: str, number: int, of: int, encoded: Encoded, tokenizer_id: str) -> TokenRow:
    return TokenRow(
        trajectory_id=trajectory_id,
        split=split,
        window=number,
        n_windows=of,
        n_target_tokens=encoded.n_target_tokens,
        tokenizer_id=tokenizer_id,
        input_ids=encoded.input_ids(),
        labels=encoded.labels(),
    )


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str, object]]:
    """Id, split and the messages as they are, a row at a time."""
    for batch in batches:
        splits = batch["split"] if "split" in batch.schema.names else None
        for place in range(batch.num_rows):
            split = TRAIN if splits is None else str(splits[place].as_py())
            yield str(batch["trajectory_id"][place].as_py()), split, batch["messages"][place].as_py()


def _messages(cell: object) -> list[Message]:
    """The messages of a row. Raises ItemRejected when there are none or one has no role or text."""
    if not isinstance(cell, list) or not cell:
        raise ItemRejected("no_messages", "the row has no messages")
    for place, message in enumerate(cell):
        if not isinstance(message, dict) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise ItemRejected("no_messages", f"message {place} has no role or no text")
    return cell


def _refusal(trajectory_id: str, error: ItemRejected) -> str:
    fields = {"trajectory_id": trajectory_id, "failure_class": error.failure_class, "reason": error.reason}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _prove(part: Path, read: Counter[str], files: Sequence[TokenFile]) -> int:
    """Rows refused. Raises ExportDamaged unless each row that was read is in the files or refused, as often as read."""
    with (part / REFUSED).open(encoding="utf-8") as lines:
        refused = Counter(json.loads(line)["trajectory_id"] for line in lines)
    found = Counter(read_ids(part, files)) + refused
    if found != read:
        raise ExportDamaged(f"of {read.total()} rows, the files and {REFUSED} have {(found & read).total()}")
    return refused.total()


def _json(record: Record) -> str:
    return json.dumps(record.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
