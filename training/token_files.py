"""Files of tokens: Parquet whose row groups are bounded, one row for each window of a trajectory.

Not here: what the tokens are, and whether all of them are there (training/data.py).
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_TOKENS = 4 * 1024 * 1024
"""Of a row group; ids and labels of one take 32 MiB."""
FILE_TOKENS = 64 * 1024 * 1024
"""Of a file; then the next begins."""

SCHEMA = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("split", pa.string()),
        ("window", pa.int32()),
        ("n_windows", pa.int32()),
        ("n_tokens", pa.int32()),
        ("n_target_tokens", pa.int32()),
        ("tokenizer_id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
    ]
)
_LISTS = ("input_ids", "labels")


@dataclass(frozen=True)
class TokenRow:
    """One window of one trajectory."""

    trajectory_id: str
    split: str
    window: int
    n_windows: int
    n_tokens: int
    n_target_tokens: int
    tokenizer_id: str
    input_ids: array[int]
    labels: array[int]


class TokenFiles:
    """The files `data/<split>-00000.parquet` … of one split below a folder; no trajectory is in two of them."""

    def __init__(
        self, folder: Path, split: str, group_tokens: int = GROUP_TOKENS, file_tokens: int = FILE_TOKENS
    ) -> None:
        self._folder, self._split = folder / "data", split
        self._group_tokens, self._file_tokens = group_tokens, file_tokens
        self._folder.mkdir(exist_ok=True)
        self._number = self._tokens = self._pending = 0
        self._writer: pq.ParquetWriter | None = None
        self._group: list[TokenRow] = []

    def __enter__(self) -> TokenFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._close()

    def write(self, row: TokenRow) -> None:
        """Take a row; the windows of a trajectory come one after the other."""
        self._group.append(row)
        self._tokens += row.n_tokens
        self._pending += row.n_tokens
        if self._pending >= self._group_tokens:
            self._flush()
        if self._tokens >= self._file_tokens and row.window + 1 == row.n_windows:
            self._flush()
            self._close()

    def _flush(self) -> None:
        if not self._group:
            return
        if self._writer is None:
            path = self._folder / f"{self._split}-{self._number:05d}.parquet"
            self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        table = _table(self._group)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._group, self._pending = [], 0

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._number += 1
        self._writer, self._tokens = None, 0


def read_rows(folder: Path, split: str) -> Iterator[TokenRow]:
    """The rows of a split as they lie on disk, in order."""
    for path in sorted((folder / "data").glob(f"{split}-*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield from _rows(file.read_row_group(group))


def token_counts(folder: Path, split: str) -> dict[str, int]:
    """Tokens of all windows of each trajectory of a split, without reading them."""
    counts: dict[str, int] = {}
    for path in sorted((folder / "data").glob(f"{split}-*.parquet")):
        table = pq.read_table(path, columns=["trajectory_id", "n_tokens"])
        for identity, tokens in zip(*(column.to_pylist() for column in table.columns), strict=True):
            counts[identity] = counts.get(identity, 0) + tokens
    return counts


def by_trajectory(rows: Iterable[TokenRow]) -> Iterator[tuple[str, bytes]]:
    """Each trajectory with the digest of its windows, in order."""
    for trajectory_id, windows in groupby(rows, lambda row: row.trajectory_id):
        yield trajectory_id, digest_of(windows)


def digest_of(windows: Iterable[TokenRow]) -> bytes:
    """Of all that the windows of a trajectory hold."""
    digest = hashlib.sha256()
    for row in windows:
        fields = (row.split, row.window, row.n_windows, row.n_tokens, row.n_target_tokens, row.tokenizer_id)
        digest.update(repr(fields).encode())
        digest.update(row.input_ids)
        digest.update(row.labels)
    return digest.digest()


def _table(rows: Sequence[TokenRow]) -> pa.Table:
    columns = []
    for field in SCHEMA:
        values = [getattr(row, field.name) for row in rows]
        columns.append(_lists(values) if field.name in _LISTS else pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _lists(parts: Sequence[array[int]]) -> pa.ListArray:
    """The arrays as one column, without a Python object for each token."""
    values = array("i")
    offsets = array("i", [0])
    for part in parts:
        values.extend(part)
        offsets.append(len(values))
    return pa.ListArray.from_arrays(_int32(offsets), _int32(values))


def _int32(values: array[int]) -> pa.Int32Array:
    return pa.Int32Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])


def _rows(table: pa.Table) -> Iterator[TokenRow]:
    for batch in table.to_batches():
        rows = batch.drop_columns(list(_LISTS)).to_pylist()
        lists = [_arrays(batch[name]) for name in _LISTS]
        for fields, input_ids, labels in zip(rows, *lists, strict=True):
            yield TokenRow(**fields, input_ids=input_ids, labels=labels)


def _arrays(column: pa.ListArray) -> Iterator[array[int]]:
    for place in range(len(column)):
        values = column[place].values
        part = array("i")
        if len(values):
            start = values.offset * part.itemsize
            part.frombytes(memoryview(values.buffers()[1])[start : start + len(values) * part.itemsize])
        yield part
