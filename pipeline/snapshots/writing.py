"""Writes the data files of a version, hashes every row on the way, and reads every file back.

Hashing and reading back happen in threads beside the compression of the next rows. Memory is bounded by the rows of
two files, which are held until they were read back, and the ids and hashes of all rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.disk import sync
from pipeline.snapshots.contents import content_sha256, row_digests
from pipeline.snapshots.manifest import FileEntry, SnapshotDamaged, file_sha256

GROUP_ROWS = 100
GROUP_BYTES = 64 * 1024 * 1024
"""Largest row group: one whose texts exceed 2 GiB cannot be read back."""
SHARD_BYTES = 256 * 1024 * 1024
"""Size of a file before compression at which the next one begins."""
CODEC = "zstd"
KEY = "trajectory_id"
"""Column that names a row."""
ONE_SPLIT = "train"
"""Of rows without a column `split`."""

_WAITING = 4
"""Row groups that may wait for being hashed."""


@dataclass
class Written:
    """What came of it."""

    files: tuple[FileEntry, ...]
    ids: pa.Table
    """Columns KEY, row_sha256 (hexadecimal) and split of every row."""
    content_sha256: str
    bytes_by_split: dict[str, int]
    """Before compression."""


class VersionWriter:
    """Takes rows in parts of any size. Use it in a `with`: `finish` ends it well, anything else gives up the files."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        """Files go to `folder`/data."""
        self._folder = folder
        self._schema = schema
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="snapshot")
        self._splits: dict[str, _Split] = {}
        (folder / "data").mkdir(parents=True)

    def write(self, rows: pa.Table) -> None:
        """Raises SnapshotDamaged when a file does not give its rows again."""
        rows = rows.cast(self._schema) if rows.schema != self._schema else rows
        if "split" not in self._schema.names:
            self._split(ONE_SPLIT).add(rows)
            return
        for name in pc.unique(rows.column("split")).to_pylist():
            if not name:
                raise ValueError(f"a row without a split: {rows.column(KEY)[0]}")
            self._split(name).add(rows.filter(pc.equal(rows.column("split"), name)))

    def _split(self, name: str) -> _Split:
        if name not in self._splits:
            self._splits[name] = _Split(name, self._folder, self._schema, self._threads)
        return self._splits[name]

    def finish(self) -> Written:
        """All files are on disk and were read back.

        Raises SnapshotDamaged, and ValueError for an id that is there twice.
        """
        splits = [self._splits[name] for name in sorted(self._splits)]
        for split in splits:
            split.finish()
        shards = [shard for split in splits for shard in split.shards]
        digests = [digest for shard in shards for digest in shard.digests]
        ids = pa.table(
            {
                KEY: pa.chunked_array([part for shard in shards for part in shard.ids], pa.string()),
                "row_sha256": pa.array([digest.hex() for digest in digests], pa.string()),
                "split": pa.array([shard.split for shard in shards for _ in shard.digests], pa.string()),
            }
        )
        if len(pc.unique(ids.column(KEY))) != ids.num_rows:
            counts = pc.value_counts(ids.column(KEY))
            twice = counts.filter(pc.greater(counts.field("counts"), 1))
            raise ValueError(f"{twice[0]['values']} is in the rows {twice[0]['counts']} times, ids must be unique")
        return Written(
            files=tuple(shard.entry.result() for shard in shards),
            ids=ids.sort_by(KEY),
            content_sha256=content_sha256(digests),
            bytes_by_split={split.name: split.size for split in splits},
        )

    def __enter__(self) -> VersionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for split in self._splits.values():
            split.abandon()
        self._threads.shutdown(cancel_futures=True)


@dataclass
class _Shard:
    """One data file."""

    split: str
    path: Path
    writer: pq.ParquetWriter
    size: int = 0
    """Bytes before compression."""
    ids: list[pa.Array] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    """In the order of the rows; complete when `waiting` is empty."""
    waiting: deque[Future[list[bytes]]] = field(default_factory=deque)
    groups: list[pa.Table] = field(default_factory=list)
    """What was written, until it was read back."""
    entry: Future[FileEntry] = field(default_factory=Future)


class _Split:
    """The files of one split."""

    def __init__(self, name: str, folder: Path, schema: pa.Schema, threads: ThreadPoolExecutor) -> None:
        self.name = name
        self.shards: list[_Shard] = []
        self.size = 0
        self._folder, self._schema, self._threads = folder, schema, threads
        self._pending: list[pa.Table] = []
        self._open: _Shard | None = None

    def add(self, rows: pa.Table) -> None:
        """Write what fills row groups; the rest waits for more."""
        self._pending.append(rows)
        while self._due():
            together = pa.concat_tables(self._pending)
            self._pending = [together.slice(GROUP_ROWS)] if together.num_rows > GROUP_ROWS else []
            self._write(together.slice(0, GROUP_ROWS))

    def _due(self) -> bool:
        rows = sum(part.num_rows for part in self._pending)
        size = sum(int(part.nbytes) for part in self._pending)
        return rows >= GROUP_ROWS or (rows > 0 and size >= GROUP_BYTES)

    def _write(self, rows: pa.Table) -> None:
        for group in _groups(rows):
            size = group.nbytes
            if self._open is not None and self._open.size + size > SHARD_BYTES:
                self._close()
            shard = self._open = self._open or self._new()
            shard.size += size
            self.size += size
            shard.ids += group.column(KEY).chunks
            shard.groups.append(group)
            shard.waiting.append(self._threads.submit(row_digests, group))
            shard.writer.write_table(group, row_group_size=group.num_rows)
            if len(shard.waiting) > _WAITING:
                shard.digests += shard.waiting.popleft().result()

    def _new(self) -> _Shard:
        path = self._folder / "data" / f"{self.name}-{len(self.shards):05d}.parquet"
        shard = _Shard(self.name, path, pq.ParquetWriter(path, self._schema, compression=CODEC))
        self.shards.append(shard)
        return shard

    def _close(self) -> None:
        shard, self._open = self._open, None
        assert shard is not None
        shard.writer.close()
        while shard.waiting:
            shard.digests += shard.waiting.popleft().result()
        shard.entry = self._threads.submit(_read_back, shard, self._folder)
        for older in self.shards[:-1]:
            older.entry.result()  # at most one file waits; one that cannot be read ends the writing soon

    def finish(self) -> None:
        if self._pending:
            rest, self._pending = pa.concat_tables(self._pending), []
            if rest.num_rows:
                self._write(rest)
        if self._open is not None:
            self._close()
        for shard in self.shards:
            shard.entry.result()

    def abandon(self) -> None:
        if self._open is not None:
            self._open.writer.close()
            self._open = None


def _groups(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.num_rows > 1 and rows.nbytes > GROUP_BYTES:
        middle = rows.num_rows // 2
        yield from _groups(rows.slice(0, middle))
        yield from _groups(rows.slice(middle))
    else:
        yield rows


def _read_back(shard: _Shard, folder: Path) -> FileEntry:
    """The entry of a file that gives its rows again, and is on disk. Raises SnapshotDamaged when it does not."""
    sync(shard.path)
    with pq.ParquetFile(shard.path) as file:
        for number, written in enumerate(shard.groups):
            group = file.read_row_group(number) if number < file.num_row_groups else written.slice(0, 0)
            # NaN equals nothing, not even itself.
            if not group.equals(written) and row_digests(group) != row_digests(written):
                raise SnapshotDamaged(f"{shard.path} does not give back the rows written to it (row group {number})")
        if file.num_row_groups != len(shard.groups):
            raise SnapshotDamaged(f"{shard.path} has {file.num_row_groups} row groups of {len(shard.groups)}")
    rows = sum(group.num_rows for group in shard.groups)
    shard.groups.clear()
    return FileEntry(
        path=str(shard.path.relative_to(folder)),
        sha256=file_sha256(shard.path),
        bytes=shard.path.stat().st_size,
        rows=rows,
        split=shard.split,
    )
