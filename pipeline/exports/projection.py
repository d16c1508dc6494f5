"""Writes a published version as rows of another format, and proves that they are its rows.

Each row goes over in three steps: what of it the format has to carry (`essence`), the row of the format (`record`), and
what a reader gets back out of that (`recovered`). A row for which the last is not the first is refused. When all is
written it is read again from disk and compared with what the version held, id by id.

Not here: what the formats are (messages.py, sharegpt.py, rl.py, megatron.py), and where rows come from (published.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.exports.account import Account, RowRefused, Unit, VersionExport, digest_of
from pipeline.exports.folders import new_folder, prove
from pipeline.exports.published import PublishedRow, PublishedVersion, rows_of
from pipeline.schemas import Row

GROUP_ROWS = 100
GROUP_BYTES = 64 * 1024 * 1024
"""Largest row group: one whose texts exceed 2 GiB cannot be read back."""

_LINE_ENDS = {end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""What some readers take for the end of a line, though JSON does not."""


class Projection(Protocol):
    """One format. `record` and `recovered` raise nothing but RowRefused."""

    format: str
    format_version: str
    unit: Unit
    columns: tuple[str, ...]
    """Of the version, that are read."""
    schema: pa.Schema | None
    """Of the Parquet files; None for lines of JSON."""

    def essence(self, row: Row) -> Row:
        """What has to be carried, the id among it. Raises RowRefused for a row that the format cannot carry."""

    def record(self, essence: Row, split: str, number: int) -> Row:
        """The row of the format, the `number`-th of its split from 0 on."""

    def recovered(self, record: Row) -> Row:
        """What the record says, in the form of an essence."""

    def companions(self, name: str, ids: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Texts of further files by their names, e.g. what tells a trainer where the rows of the data set `name` are.

        `ids` are those of the rows of each file, in order; a file is named after its split.
        """


def export_version(
    version: PublishedVersion, folder: Path, projection: Projection, split: str | None = None
) -> VersionExport:
    """Write one file per split, or of one split only, into a new folder; all or nothing, one batch at a time.

    Raises NothingToExport for a split that is not there and when no row can be carried, ConfigurationError when
    `folder` is there and not empty or cannot be written, ExportDamaged, SnapshotDamaged.
    """
    splits = version.chosen(split)
    account = Account(version, projection.unit)
    with new_folder(folder) as part:
        for name in splits:
            path = part / f"{name}.{'jsonl' if projection.schema is None else 'parquet'}"
            _write(version, name, path, projection, account)
            _prove(path, projection, account.expected(name))
            if not account.expected(name):
                path.unlink()
        ids = {name: list(account.expected(name)) for name in splits if account.expected(name)}
        for name, text in projection.companions(version.manifest.name, ids).items():
            (part / name).write_text(text, encoding="utf-8")
        made = account.close(part, format=projection.format, format_version=projection.format_version, splits=splits)
    return made.model_copy(update={"folder": str(folder)})


def _write(version: PublishedVersion, split: str, path: Path, projection: Projection, account: Account) -> None:
    with _Lines(path) if projection.schema is None else _Columns(path, projection.schema) as target:
        for found in rows_of(version, projection.columns, split):
            try:
                record = _record(found, projection, account)
            except RowRefused as error:
                account.refuse(found, error)
                continue
            if record is not None:
                target.write(record)


def _record(found: PublishedRow, projection: Projection, account: Account) -> Row | None:
    """The row of the format, None when an earlier one carries it. Raises RowRefused."""
    if found.row is None:
        raise RowRefused("not_utf8", "a text of it is no valid UTF-8")
    essence = projection.essence(found.row)
    digest, key = digest_of(essence), str(essence[projection.unit])
    record = projection.record(essence, found.split, len(account.expected(found.split)))
    if digest_of(projection.recovered(record)) != digest:
        raise RowRefused("not_lossless", "read again, it would be another row")
    return record if account.carry(found, key, digest) else None


def _prove(path: Path, projection: Projection, expected: Mapping[str, bytes]) -> None:
    """Compare what is on disk with what the version held. Raises ExportDamaged."""
    essences = map(projection.recovered, _read(path, projection.schema))
    prove(path.name, ((str(one[projection.unit]), digest_of(one)) for one in essences), expected)


def _read(path: Path, schema: pa.Schema | None) -> Iterator[Row]:
    if schema is None:
        with path.open("rb") as lines:
            yield from map(json.loads, lines)
        return
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(GROUP_ROWS, row_groups=[group]):
                yield from batch.to_pylist()


class _Lines:
    """One JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Lines:
        self._file = self._path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, record: Row) -> None:
        line = json.dumps(record, ensure_ascii=False)
        for end, escaped in _LINE_ENDS.items():
            line = line.replace(end, escaped)
        self._file.write(line.encode() + b"\n")


class _Columns:
    """A Parquet file whose row groups have an end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._rows: list[Row] = []
        self._size = 0

    def __enter__(self) -> _Columns:
        self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._writer:
            if kind is None:
                self._flush()

    def write(self, record: Row) -> None:
        size = _size(record)
        if self._rows and (self._size + size > GROUP_BYTES or len(self._rows) == GROUP_ROWS):
            self._flush()
        self._rows.append(record)
        self._size += size

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._size = [], 0


def _size(value: object) -> int:
    """Characters of all texts."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 8
