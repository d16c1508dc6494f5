"""Hashes of rows: equal for equal values, whatever the order of rows, their division into files and the Arrow version.

A row is hashed over all its columns but the run-dependent ones, nested ones too, in the order of the schema, each in
one plain form: for a list the 4-byte length (-1: null), then its items column by column; for a text the 4-byte length
(-1: null), then UTF-8; for a struct a byte for being there, then its fields; for anything else a byte for being there,
then the value in little-endian order. The lengths make the form unambiguous, and it is cut out of Arrow's own buffers,
so that hashing costs little more than the hash.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schemas import RUN_DEPENDENT

Integers = npt.NDArray[np.int64]
_Part = tuple[memoryview, list[int]]
"""Bytes of all rows of one leaf, and where each row begins in them; the end of the last row comes last."""

assert sys.byteorder == "little", "rows are hashed as they lie in memory, in little-endian order"


def content_sha256(digests: Iterable[bytes]) -> str:
    """Hash of rows as a bag, from the digest of each."""
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def row_digests(rows: pa.Table) -> list[bytes]:
    """SHA-256 of each row."""
    return [digest for batch in rows.to_batches() for digest in _of_batch(batch)]


class Checksums:
    """CRC-32 of every leaf of rows that come in parts, run-dependent columns too, whatever the parts.

    Equal ones show that nothing was lost by accident on the way to a file and back.
    """

    def __init__(self) -> None:
        self._found: list[int] = []

    def add(self, rows: pa.Table) -> None:
        """The next rows."""
        for batch in rows.to_batches():
            parts = _columns(batch, _bounds(batch), frozenset())
            former = self._found or itertools.repeat(0)
            self._found = [zlib.crc32(data, before) for (data, _), before in zip(parts, former, strict=False)]

    def same(self, other: Checksums) -> bool:
        """Whether both saw the same rows."""
        return self._found == other._found


def _bounds(batch: pa.RecordBatch) -> Integers:
    return np.arange(batch.num_rows + 1, dtype=np.int64)


def _of_batch(batch: pa.RecordBatch) -> Iterator[bytes]:
    parts = list(_columns(batch, _bounds(batch), RUN_DEPENDENT))
    for row in range(batch.num_rows):
        yield hashlib.sha256(b"".join([data[starts[row] : starts[row + 1]] for data, starts in parts])).digest()


def _columns(batch: pa.RecordBatch, bounds: Integers, skip: frozenset[str]) -> Iterator[_Part]:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name not in skip:
            yield from _parts(column, bounds, skip)


def _parts(column: pa.Array, bounds: Integers, skip: frozenset[str]) -> Iterator[_Part]:
    """Every leaf of a column, without those named in `skip`.

    `bounds[row]:bounds[row + 1]` are the elements that belong to a row.
    """
    kind = column.type
    if pa.types.is_list(kind):
        yield from _list(column, bounds, skip)
    elif pa.types.is_struct(kind):
        yield _present(column, bounds)
        children: Sequence[pa.Array] = column.flatten()  # unlike field(), this carries the nulls of the struct along
        for number, child in enumerate(children):
            if kind.field(number).name not in skip:
                yield from _parts(child, bounds, skip)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from _text(column, bounds)
    else:
        yield _present(column, bounds)
        yield _fixed(column, bounds)


def _list(column: pa.ListArray, bounds: Integers, skip: frozenset[str]) -> Iterator[_Part]:
    lengths, filled = _lengths(pc.list_value_length(column))
    yield _cut(lengths, bounds)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(filled)])
    yield from _parts(column.flatten(), offsets[bounds], skip)


def _text(column: pa.Array, bounds: Integers) -> Iterator[_Part]:
    lengths, filled = _lengths(pc.binary_length(column))
    yield _cut(lengths, bounds)
    if column.null_count:
        column = column.fill_null(b"" if pa.types.is_binary(column.type) else "")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(filled)])
    buffers = column.buffers()
    first = np.frombuffer(buffers[1], np.int32, 1, 4 * column.offset)[0] if len(column) else 0
    data = memoryview(buffers[2])[first : first + offsets[-1]] if buffers[2] is not None else memoryview(b"")
    yield data, offsets[bounds].tolist()


def _lengths(found: pa.Array) -> tuple[npt.NDArray[np.int32], Integers]:
    """Lengths with -1 for null, and with 0 for null."""
    lengths = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return lengths, np.maximum(lengths, 0).astype(np.int64)


def _present(column: pa.Array, bounds: Integers) -> _Part:
    return _cut(column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8), bounds)


def _fixed(column: pa.Array, bounds: Integers) -> _Part:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    zero = pa.scalar(0).cast(column.type)
    values = pc.fill_null(column, zero).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(column.type):
        values = values.astype(np.uint8)
    if pa.types.is_floating(column.type):
        values = np.where(np.isnan(values), np.nan, values).astype(values.dtype)  # there are many NaNs
    return _cut(values, bounds)


def _cut(values: npt.NDArray[np.generic], bounds: Integers) -> _Part:
    data = np.ascontiguousarray(values).view(np.uint8)
    return memoryview(data.data), (bounds * values.itemsize).tolist()
