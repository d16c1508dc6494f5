"""Files of tokens: Parquet whose row groups are bounded, written as rows come, and read again before they count.

Not here: what the tokens are.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.types import Record
from training.tokens import IGNORED

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


class ExportDamaged(PipelineError):
    """What was written is not what can be read, or not all of what was given."""


class TokenFile(Record):
    """One file of tokens."""

    path: str
    """Relative to the folder of the export."""
    sha256: str
    bytes: int
    rows: int
    n_tokens: int
    n_target_tokens: int


@dataclass(frozen=True)
class TokenRow:
    """One window of one trajectory."""

    trajectory_id: str
    split: str
    window: int
    n_windows: int
    n_target_tokens: int
    tokenizer_id: str
    input_ids: array[int]
    labels: array[int]


class TokenFiles:
    """The files `data/<split>-00000.parquet` … below a folder, one open at a time for each split."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "data").mkdir()
        self._open: dict[str, _OpenFile] = {}
        self._numbers: Counter[str] = Counter()
        self._written: list[TokenFile] = []

    def add(self, row: TokenRow) -> None:
        """Take a row. Raises ExportDamaged when a file that is full by now cannot be read again."""
        split = row.split
        if split not in self._open:
            path = self._folder / "data" / f"{split}-{self._numbers[split]:05d}.parquet"
            self._open[split] = _OpenFile(path)
            self._numbers[split] += 1
        self._open[split].add(row)
        if self._open[split].n_tokens >= FILE_TOKENS and row.window + 1 == row.n_windows:
            self._written.append(self._open.pop(split).close())

    def close(self) -> tuple[TokenFile, ...]:
        """Write what is left; every file, each read again and found to be what was written. Raises ExportDamaged."""
        self._written += [file.close() for file in self._open.values()]
        self._open = {}
        return tuple(sorted(self._written, key=lambda file: file.path))

    def abandon(self) -> None:
        """Close what is open, unread: the folder goes away."""
        for file in self._open.values():
            file.writer.close()


class _OpenFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self.n_tokens = 0
        self._digests: list[str] = []
        self._rows: list[TokenRow] = []
        self._pending = 0

    def add(self, row: TokenRow) -> None:
        self._rows.append(row)
        self._pending += len(row.input_ids)
        self.n_tokens += len(row.input_ids)
        if self._pending >= GROUP_TOKENS:
            self._flush()

    def close(self) -> TokenFile:
        self._flush()
        self.writer.close()
        rows = tokens = targets = 0
        with pq.ParquetFile(self._path) as file:
            groups = range(file.num_row_groups)
            if len(groups) != len(self._digests):
                raise ExportDamaged(f"{self._path} has {len(groups)} row groups of {len(self._digests)}")
            for group, digest in zip(groups, self._digests, strict=True):
                again = file.read_row_group(group)
                if _digest(again) != digest:
                    raise ExportDamaged(f"{self._path} does not give back the rows written to it")
                rows += again.num_rows
                tokens += len(_values(again, "input_ids"))
                targets += _n_targets(again, self._path)
        with self._path.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        return TokenFile(
            path=f"data/{self._path.name}",
            sha256=sha256,
            bytes=self._path.stat().st_size,
            rows=rows,
            n_tokens=tokens,
            n_target_tokens=targets,
        )

    def _flush(self) -> None:
        if self._rows:
            table = _table(self._rows)
            self._digests.append(_digest(table))
            self.writer.write_table(table, row_group_size=table.num_rows)
            self._rows, self._pending = [], 0


def read_ids(folder: Path, files: Sequence[TokenFile]) -> Iterator[str]:
    """Every trajectory in the files, in order. Raises ExportDamaged when one lacks a window; none is in two files."""
    for file in files:
        begun: tuple[str, int] | None = None
        columns = ["trajectory_id", "window", "n_windows"]
        for batch in pq.ParquetFile(folder / file.path).iter_batches(columns=columns):
            for row in batch.to_pylist():
                window = (row["trajectory_id"], row["window"])
                if window != (begun or (row["trajectory_id"], 0)):
                    raise ExportDamaged(f"{file.path}: after {begun}, window {window} was not to be expected")
                last = row["window"] + 1 == row["n_windows"]
                begun = None if last else (row["trajectory_id"], row["window"] + 1)
                if last:
                    yield row["trajectory_id"]
        if begun:
            raise ExportDamaged(f"{file.path}: window {begun} is missing")


def _table(rows: Sequence[TokenRow]) -> pa.Table:
    columns: list[pa.Array] = []
    for field in SCHEMA:
        if field.name in _LISTS:
            columns.append(_lists([getattr(row, field.name) for row in rows]))
        elif field.name == "n_tokens":
            columns.append(pa.array([len(row.input_ids) for row in rows], field.type))
        else:
            columns.append(pa.array([getattr(row, field.name) for row in rows], field.type))
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


def _values(table: pa.Table, column: str) -> pa.Int32Array:
    return pa.concat_arrays([chunk.flatten() for chunk in table[column].chunks])


def _digest(table: pa.Table) -> str:
    digest = hashlib.sha256()
    for name in _LISTS:
        values = _values(table, name)
        start = values.offset * 4
        digest.update(memoryview(values.buffers()[1])[start : start + len(values) * 4])
        digest.update(json.dumps(pc.list_value_length(table[name]).to_pylist()).encode())
    digest.update(json.dumps(table.drop_columns(list(_LISTS)).to_pylist()).encode())
    return digest.hexdigest()


def _n_targets(table: pa.Table, path: Path) -> int:
    """Labels that are not ignored. Raises ExportDamaged when they are not what the rows say."""
    learned = pc.sum(pc.not_equal(_values(table, "labels"), IGNORED)).as_py()
    if learned != pc.sum(table["n_target_tokens"]).as_py():
        raise ExportDamaged(f"{path}: the labels are not as many as the rows say")
    return int(learned)
