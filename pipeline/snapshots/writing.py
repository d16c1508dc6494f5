"""Writes the data files of a version, hashes every row on the way, and reads every file back.

Hashing and reading back take turns in one thread beside the compression of the next rows: with two cores a third
thread would only slow that down. Memory is bounded by a few row groups, and the ids and hashes of all rows.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.disk import sync
from pipeline.snapshots.contents import Checksums, content_sha256
from pipeline.snapshots.keys import ID, KEY, identities
from pipeline.snapshots.manifest import FileEntry, SnapshotDamaged, file_sha256

GROUP_ROWS = 100
GROUP_BYTES = 64 * 1024 * 1024
"""Largest row group: one whose texts exceed 2 GiB cannot be read back."""
SHARD_BYTES = 256 * 1024 * 1024
"""Size of a file before compression at which the next one begins."""
CODEC = "zstd"
ONE_SPLIT = "train"
"""Of rows without a column `split`."""

TOGETHER_BYTES = 16 * 1024 * 1024
"""Row groups that are hashed or read back at once: each time costs as much as some rows, but more memory than this is
not used again by the allocator, and new pages cost more."""
_WAITING = 3
"""Parts of that size that may wait for being hashed."""


@dataclass
class Written:
    """What came of it."""

    files: tuple[FileEntry, ...]
    ids: pa.Table
    """Columns ID, row_sha256 (hexadecimal) and split of every row."""
    content_sha256: str
    bytes_by_split: dict[str, int]
    """Before compression."""


class VersionWriter:
    """Takes rows in parts of any size. Use it in a `with`: `finish` ends it well, anything else gives up the files."""

    def __init__(self, folder: Path, schema: pa.Schema, key: Sequence[str] = KEY, group_rows: int = GROUP_ROWS) -> None:
        """Files go to `folder`/data. Rows are named by the columns `key`; a row group has `group_rows` at most."""
        self._folder = folder
        self._form = _Form(schema, tuple(key), group_rows)
        self._threads = _Threads(ThreadPoolExecutor(1), ThreadPoolExecutor(1))
        self._splits: dict[str, _Split] = {}
        (folder / "data").mkdir(parents=True)

    def write(self, rows: pa.Table) -> None:
        """Raises SnapshotDamaged when a file does not give its rows again."""
        rows = rows.cast(self._form.schema) if rows.schema != self._form.schema else rows
        size = int(rows.nbytes)  # looking at the size of every slice would take longer than making it
        if "split" not in self._form.schema.names:
            self._split(ONE_SPLIT).add(rows, size)
            return
        names = rows.column("split").to_pylist()
        start = 0
        for name, run in itertools.groupby(names):
            # Slices of runs cost nothing; filtering nested columns would cost more than all else here.
            length = sum(1 for _ in run)
            if not name:
                raise ValueError(f"a row without a split: {identities(rows, self._form.key)[start]}")
            self._split(name).add(rows.slice(start, length), size * length // len(names))
            start += length

    def _split(self, name: str) -> _Split:
        if name not in self._splits:
            self._splits[name] = _Split(name, self._folder, self._form, self._threads)
        return self._splits[name]

    def finish(self) -> Written:
        """All files are on disk and were read back.

        Raises SnapshotDamaged, and ValueError for an id that is there twice.
        """
        splits = [self._splits[name] for name in sorted(self._splits)]
        for split in splits:
            split.finish()
        for split in splits:
            split.hashed()
        shards = [shard for split in splits for shard in split.shards]
        digests = [digest for shard in shards for digest in shard.digests]
        ids = pa.table(
            {
                ID: pa.array([one for shard in shards for one in shard.ids], pa.string()),
                "row_sha256": pa.array([digest.hex() for digest in digests], pa.string()),
                "split": pa.array([shard.split for shard in shards for _ in shard.digests], pa.string()),
            }
        )
        if len(pc.unique(ids.column(ID))) != ids.num_rows:
            counts = pc.value_counts(ids.column(ID))
            twice = counts.filter(pc.greater(counts.field("counts"), 1))
            raise ValueError(f"{twice[0]['values']} is in the rows {twice[0]['counts']} times, ids must be unique")
        ids, content = ids.sort_by(ID), content_sha256(digests)
        return Written(
            files=tuple(shard.entry.result() for shard in shards),
            ids=ids,
            content_sha256=content,
            bytes_by_split={split.name: split.size for split in splits},
        )

    def __enter__(self) -> VersionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for split in self._splits.values():
            split.abandon()
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)


class _Form(NamedTuple):
    """What all rows of a version have in common."""

    schema: pa.Schema
    key: tuple[str, ...]
    group_rows: int


class _Threads(NamedTuple):
    disk: ThreadPoolExecutor
    """Waits for the disk. Reads the last files back, when nothing is compressed any more."""
    beside: ThreadPoolExecutor
    """One thread, so that hashes come in the order of the rows. Reads all other files back."""


@dataclass
class _Shard:
    """One data file."""

    split: str
    path: Path
    writer: pq.ParquetWriter
    groups: list[int] = field(default_factory=list)
    """Sizes of the row groups, bytes before encoding and compression."""
    size: int = 0
    """Of all together."""
    ids: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    """In the order of the rows; complete when nothing waits."""
    checksums: Checksums = field(default_factory=Checksums)
    """Of the rows as they were written."""
    together: list[pa.Table] = field(default_factory=list)
    """Row groups that are hashed next."""
    together_size: int = 0
    waiting: deque[Future[None]] = field(default_factory=deque)
    entry: Future[FileEntry] = field(default_factory=Future)

    def hash_later(self, group: pa.Table, size: int, threads: _Threads) -> None:
        """Hash a row group together with its neighbours."""
        self.together.append(group)
        self.together_size += size
        if self.together_size >= TOGETHER_BYTES:
            self.hash_now(threads)
        while len(self.waiting) > _WAITING:
            self.waiting.popleft().result()

    def hash_now(self, threads: _Threads) -> None:
        """Hash what waits for its neighbours."""
        if self.together:
            rows = pa.concat_tables(self.together)
            self.together, self.together_size = [], 0
            self.waiting.append(threads.beside.submit(self._hash, rows))

    def _hash(self, rows: pa.Table) -> None:
        rows = rows.combine_chunks()
        self.digests += self.checksums.add_and_digest(rows)


class _Split:
    """The files of one split."""

    def __init__(self, name: str, folder: Path, form: _Form, threads: _Threads) -> None:
        self.name = name
        self.shards: list[_Shard] = []
        self.size = 0
        self._folder, self._form, self._threads = folder, form, threads
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._open: _Shard | None = None

    def add(self, rows: pa.Table, size: int) -> None:
        """Write what fills row groups; the rest waits for more. `size` is about that of the rows, bytes."""
        self._wait(rows, size)
        group_rows = self._form.group_rows
        if self._pending_rows < group_rows and self._pending_bytes < GROUP_BYTES:
            return
        together = self._waiting_rows()
        full = max(together.num_rows - together.num_rows % group_rows, group_rows)
        for start in range(0, full, group_rows):
            self._write(together.slice(start, group_rows))
        if full < together.num_rows:
            rest = together.slice(full)
            self._wait(rest, int(rest.nbytes))

    def _wait(self, rows: pa.Table, size: int) -> None:
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += size

    def _waiting_rows(self) -> pa.Table:
        """All rows that wait, which wait no longer."""
        together = pa.concat_tables(self._pending)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        return together

    def _write(self, rows: pa.Table) -> None:
        for group, size in _groups(rows.combine_chunks()):  # many small parts cost more than one copy
            if self._open is not None and self._open.size + size > SHARD_BYTES:
                self._close()
            shard = self._open = self._open or self._new()
            shard.groups.append(size)
            shard.size += size
            self.size += size
            # As texts: a slice would keep all columns of its rows in memory.
            shard.ids += identities(group, self._form.key).to_pylist()
            shard.hash_later(group, size, self._threads)
            shard.writer.write_table(group, row_group_size=group.num_rows)

    def _new(self) -> _Shard:
        path = self._folder / "data" / f"{self.name}-{len(self.shards):05d}.parquet"
        shard = _Shard(self.name, path, pq.ParquetWriter(path, self._form.schema, compression=CODEC))
        self.shards.append(shard)
        return shard

    def _close(self, *, last: bool = False) -> None:
        shard, self._open = self._open, None
        assert shard is not None
        shard.writer.close()
        shard.hash_now(self._threads)
        steps = _read_back(shard, self._folder)
        self._threads.disk.submit(_in_turns, steps, shard.entry, self._threads.disk if last else self._threads.beside)
        for older in self.shards[:-1]:
            older.entry.result()  # at most one file waits; one that cannot be read ends the writing soon

    def finish(self) -> None:
        """Close the last file, and go on without waiting until it was read back."""
        if self._pending_rows:
            self._write(self._waiting_rows())
        if self._open is not None:
            self._close(last=True)

    def hashed(self) -> None:
        """Wait until all rows are hashed."""
        for shard in self.shards:
            for part in shard.waiting:
                part.result()

    def abandon(self) -> None:
        if self._open is not None:
            self._open.writer.close()
            self._open = None


def _groups(rows: pa.Table) -> Iterator[tuple[pa.Table, int]]:
    """Row groups with their sizes, bytes."""
    size = int(rows.nbytes)
    if rows.num_rows > 1 and size > GROUP_BYTES:
        middle = rows.num_rows // 2
        yield from _groups(rows.slice(0, middle))
        yield from _groups(rows.slice(middle))
    else:
        yield rows, size


def _in_turns(steps: Generator[None, None, FileEntry], entry: Future[FileEntry], thread: ThreadPoolExecutor) -> None:
    """Take one step. The next follows in `thread`, behind all that waits there; what comes of the last is `entry`."""
    try:
        next(steps)
    except StopIteration as done:
        entry.set_result(done.value)
    except BaseException as error:  # noqa: BLE001 - raised where the entry is asked for
        entry.set_exception(error)
    else:
        thread.submit(_in_turns, steps, entry, thread)


def _read_back(shard: _Shard, folder: Path) -> Generator[None, None, FileEntry]:
    """The entry of a file that is on disk after the first step, and gives its rows again.

    Raises SnapshotDamaged when it does not.
    """
    sync(shard.path)
    yield
    found = Checksums()
    try:
        with pq.ParquetFile(shard.path) as file:
            rows, whole = file.metadata.num_rows, file.metadata.num_row_groups == len(shard.groups)
            for numbers in _together(shard.groups) if whole else ():
                found.add(file.read_row_groups(numbers, use_threads=False).combine_chunks())
                yield
    except (pa.ArrowException, OSError) as error:
        raise SnapshotDamaged(f"{shard.path} cannot be read back: {error}") from error
    sha256 = file_sha256(shard.path)
    for hashed in shard.waiting:
        hashed.result()
    if not whole or not found.same(shard.checksums) or rows != len(shard.digests):
        raise SnapshotDamaged(f"{shard.path} does not give back the rows written to it")
    return FileEntry(
        path=str(shard.path.relative_to(folder)),
        sha256=sha256,
        bytes=shard.path.stat().st_size,
        rows=rows,
        split=shard.split,
    )


def _together(sizes: list[int]) -> Iterator[list[int]]:
    """Numbers of neighbouring row groups. The file itself tells only encoded sizes, which may be next to nothing."""
    numbers: list[int] = []
    together = 0
    for number, size in enumerate(sizes):
        numbers.append(number)
        together += size
        if together >= TOGETHER_BYTES:
            yield numbers
            numbers, together = [], 0
    if numbers:
        yield numbers
