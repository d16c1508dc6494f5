"""Hashes of rows: equal for equal values, whatever the order of rows, their division into files and the Arrow version.

A row is hashed over all its columns but the run-dependent ones, nested ones too, in the order of the schema, each in
one plain form: for a list the 4-byte length (-1: null), then its items column by column; for a text the 4-byte length
(-1: null), then UTF-8; for a struct a byte for being there, then its fields; for anything else a byte for being there,
then the value in little-endian order. The lengths make the form unambiguous, and Arrow itself puts it together out of
its buffers, so that hashing costs little more than the hash.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schemas import RUN_DEPENDENT

Integers = npt.NDArray[np.int64]

_FORM_ROWS = 100
"""Rows whose plain forms are in memory at once, beside the rows themselves."""

assert sys.byteorder == "little", "rows are hashed as they lie in memory, in little-endian order"


class _Leaf(NamedTuple):
    """One piece of the plain form, of all rows."""

    data: pa.Buffer
    starts: Integers
    """Where each row begins in it; the end of the last row comes last."""
    hashed: bool
    """Whether it counts for the hash of a row."""


def content_sha256(digests: Iterable[bytes]) -> str:
    """Hash of rows as a bag, from the digest of each."""
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def row_digests(rows: pa.Table) -> list[bytes]:
    """SHA-256 of each row."""
    return [digest for batch in rows.to_batches() for digest in _digests(_leaves(batch), batch.num_rows)]


class Checksums:
    """CRC-32 of every leaf of rows that come in parts, run-dependent columns too, whatever the parts.

    Equal ones show that nothing was lost by accident on the way to a file and back.
    """

    def __init__(self) -> None:
        self._found: list[int] = []

    def add(self, rows: pa.Table) -> None:
        """The next rows."""
        for batch in rows.to_batches():
            self._add(_leaves(batch))

    def add_and_digest(self, rows: pa.Table) -> list[bytes]:
        """The next rows, and `row_digests` of them, for which they are taken apart only once."""
        digests: list[bytes] = []
        for batch in rows.to_batches():
            leaves = list(_leaves(batch))
            self._add(leaves)
            digests += _digests(leaves, batch.num_rows)
        return digests

    def _add(self, leaves: Iterable[_Leaf]) -> None:
        former = self._found or itertools.repeat(0)
        self._found = [zlib.crc32(leaf.data, before) for leaf, before in zip(leaves, former, strict=False)]

    def same(self, other: Checksums) -> bool:
        """Whether both saw the same rows."""
        return self._found == other._found


def _digests(leaves: Iterable[_Leaf], rows: int) -> Iterator[bytes]:
    columns = [
        pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(leaf.starts), leaf.data])
        for leaf in leaves
        if leaf.hashed
    ]
    for start in range(0, rows, _FORM_ROWS):
        yield from _joined([column.slice(start, _FORM_ROWS) for column in columns], min(_FORM_ROWS, rows - start))


def _joined(columns: list[pa.Array], rows: int) -> Iterator[bytes]:
    if not columns:
        yield from [hashlib.sha256().digest()] * rows
        return
    forms = pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))
    _, offsets, data = forms.buffers()
    ends, form = np.frombuffer(offsets, np.int64, rows + 1).tolist(), memoryview(data)
    for start, end in itertools.pairwise(ends):
        yield hashlib.sha256(form[start:end]).digest()


def _leaves(batch: pa.RecordBatch) -> Iterator[_Leaf]:
    bounds = np.arange(batch.num_rows + 1, dtype=np.int64)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        yield from _parts(column, bounds, field.name not in RUN_DEPENDENT)


def _parts(column: pa.Array, bounds: Integers, hashed: bool) -> Iterator[_Leaf]:
    """Every leaf of a column.

    `bounds[row]:bounds[row + 1]` are the elements that belong to a row.
    """
    kind = column.type
    if pa.types.is_list(kind):
        yield from _list(column, bounds, hashed)
    elif pa.types.is_struct(kind):
        yield _present(column, bounds, hashed)
        children: Sequence[pa.Array] = column.flatten()  # unlike field(), this carries the nulls of the struct along
        for number, child in enumerate(children):
            yield from _parts(child, bounds, hashed and kind.field(number).name not in RUN_DEPENDENT)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from _text(column, bounds, hashed)
    else:
        yield _present(column, bounds, hashed)
        yield _fixed(column, bounds, hashed)


def _list(column: pa.ListArray, bounds: Integers, hashed: bool) -> Iterator[_Leaf]:
    lengths, offsets = _lengths(pc.list_value_length(column))
    yield _cut(lengths, bounds, hashed)
    yield from _parts(column.flatten(), offsets[bounds], hashed)


def _text(column: pa.Array, bounds: Integers, hashed: bool) -> Iterator[_Leaf]:
    lengths, offsets = _lengths(pc.binary_length(column))
    yield _cut(lengths, bounds, hashed)
    if column.null_count:
        column = column.fill_null(b"" if pa.types.is_binary(column.type) else "")
    _, places, data = column.buffers()
    first = int(np.frombuffer(places, np.int32, 1, 4 * column.offset)[0]) if len(column) else 0
    size = int(offsets[-1])
    yield _Leaf(data.slice(first, size) if data is not None else pa.py_buffer(b""), offsets[bounds], hashed)


def _lengths(found: pa.Array) -> tuple[npt.NDArray[np.int32], Integers]:
    """Lengths with -1 for null, and where each element begins when null has none."""
    lengths = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.maximum(lengths, 0) if found.null_count else lengths, out=offsets[1:])
    return lengths, offsets


def _present(column: pa.Array, bounds: Integers, hashed: bool) -> _Leaf:
    if column.null_count == 0:
        return _cut(np.ones(len(column), np.uint8), bounds, hashed)
    return _cut(column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8), bounds, hashed)


def _fixed(column: pa.Array, bounds: Integers, hashed: bool) -> _Leaf:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    zero = pa.scalar(0).cast(column.type)
    values = pc.fill_null(column, zero).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(column.type):
        values = values.astype(np.uint8)
    if pa.types.is_floating(column.type):
        values = np.where(np.isnan(values), np.nan, values).astype(values.dtype)  # there are many NaNs
    return _cut(values, bounds, hashed)


def _cut(values: npt.NDArray[np.generic], bounds: Integers, hashed: bool) -> _Leaf:
    return _Leaf(pa.py_buffer(np.ascontiguousarray(values)), bounds * values.itemsize, hashed)
