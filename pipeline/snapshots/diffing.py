"""What differs between two versions, row by row, and why rows came or went.

Ids, row hashes and splits decide, which ids.parquet has; versions of the first layout have no such file, and theirs are
computed from the rows. Why a row is missing is in excluded.parquet of the version that lacks it. Which columns differ
is found by reading changed rows: some of them, since after a change of a rule they may be all rows.

Not here: two versions whose rows are equal, which do not exist; their content hashes would be equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import ConfigurationError
from pipeline.snapshots.contents import row_digests
from pipeline.snapshots.keys import BETWEEN, ID, identities
from pipeline.snapshots.manifest import Manifest, SnapshotDamaged, manifest_of
from pipeline.snapshots.publishing import EXCLUDED
from pipeline.snapshots.reading import batches
from pipeline.snapshots.writing import ONE_SPLIT
from pipeline.types import Record

COMPARED_ROWS = 1000
"""Of more changed rows, about so many have their columns compared,"""
COMPARED_GROUPS = 100
"""from so many row groups."""
GONE = "no longer among the verified rows"
NEW = "new"
UNKNOWN = "unknown: {} has no list of what was left out"

_MEMORY = "1GB"
_IDS = pa.schema([(ID, pa.string()), ("row_sha256", pa.string()), ("split", pa.string())])
_JOINED = """CREATE TEMP TABLE joined AS SELECT coalesce(a.id, b.id) AS id, a.hash AS a_hash, b.hash AS b_hash,
    a.split AS a_split, b.split AS b_split
FROM (SELECT trajectory_id AS id, row_sha256 AS hash, split FROM a_ids) a
FULL JOIN (SELECT trajectory_id AS id, row_sha256 AS hash, split FROM b_ids) b ON a.id = b.id"""
_CAME_OR_WENT = """CREATE TEMP TABLE {side} AS SELECT joined.id, {split} AS split, left_out.step, left_out.reason
FROM joined LEFT JOIN (SELECT trajectory_id AS id, min(step) AS step,
                       min_by(concat_ws(', ', step, reason, other), step) AS reason
                       FROM {excluded} GROUP BY trajectory_id) left_out ON {attempt} = left_out.id
WHERE {missing} IS NULL"""


class RowNote(Record):
    """A row that came, went or moved."""

    trajectory_id: str
    """Its name: the values of its key, joined, where it has several columns."""
    split: str
    """Of the version that has it; `FROM -> TO` for one that moved."""
    why: str


class ColumnCounts(Record):
    """In how many changed rows each column differs."""

    compared: int
    """Changed rows that were read."""
    differing: dict[str, int]
    """Column -> rows, of the columns that both versions have; most first."""
    unchanged: int
    """Rows that differ only in columns that one of the versions has not."""


class FieldChange(Record):
    """One field of a manifest, or one column, in both versions."""

    name: str
    before: str | None
    after: str | None
    """None where it is not there."""


class VersionDiff(Record):
    """What became of the rows of version `a` in version `b`."""

    a: str
    b: str
    rows_a: int
    rows_b: int
    added: int
    removed: int
    changed: int
    """The same id with another content, its split included."""
    moved: int
    """Of those changed, rows in another split."""
    same: int
    why_added: dict[str, int]
    """`new`, or `was left out of A: STEP` -> rows."""
    why_removed: dict[str, int]
    """Step of curation, or GONE -> rows."""
    columns: ColumnCounts
    schema_changes: tuple[FieldChange, ...]
    filter_changes: tuple[FieldChange, ...]
    added_rows: tuple[RowNote, ...]
    """The first ones by id, as are the following."""
    removed_rows: tuple[RowNote, ...]
    moved_rows: tuple[RowNote, ...]
    changed_ids: tuple[str, ...]


def difference(a: Path, b: Path, *, limit: int = 20) -> VersionDiff:
    """Compare the versions in two folders; `limit` rows of each kind are named.

    Memory holds the ids and hashes of both and one row group. Raises SnapshotDamaged, and ConfigurationError for two
    versions whose rows are named by other columns.
    """
    one, other = manifest_of(a), manifest_of(b)
    if one.key != other.key:
        named = [f"{each.name}@{each.version} names its rows by {', '.join(each.key)}" for each in (one, other)]
        raise ConfigurationError(f"{' and '.join(named)}: no row of one is a row of the other")
    # What was left out of a version with several rows an attempt are attempts.
    attempt = "joined.id" if len(one.key) == 1 else f"split_part(joined.id, '{BETWEEN}', 1)"
    try:
        with duckdb.connect(config={"memory_limit": _MEMORY}) as connection:
            connection.register("a_ids", _ids(a, one))
            connection.register("b_ids", _ids(b, other))
            connection.register("a_excluded", _excluded(a, one))
            connection.register("b_excluded", _excluded(b, other))
            connection.execute(_JOINED)
            connection.execute(
                _CAME_OR_WENT.format(
                    side="added", split="b_split", excluded="a_excluded", missing="a_hash", attempt=attempt
                )
            )
            connection.execute(
                _CAME_OR_WENT.format(
                    side="removed", split="a_split", excluded="b_excluded", missing="b_hash", attempt=attempt
                )
            )
            return _described(connection, a, b, one, other, limit)
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        raise SnapshotDamaged(f"{a} and {b} cannot be compared: {error}") from error


def _described(
    connection: duckdb.DuckDBPyConnection, a: Path, b: Path, one: Manifest, other: Manifest, limit: int
) -> VersionDiff:
    def count(where: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM joined WHERE {where}").fetchall()[0][0])

    both = "a_hash IS NOT NULL AND b_hash IS NOT NULL"
    changed = f"{both} AND (a_hash <> b_hash OR a_split <> b_split)"
    moved = f"{both} AND a_split <> b_split"
    named = (f"{one.name}@{one.version}", f"{other.name}@{other.version}")
    why_added = (f"was left out of {named[0]}: ", NEW if _keeps_excluded(one) else UNKNOWN.format(named[0]))
    why_removed = ("", GONE if _keeps_excluded(other) else UNKNOWN.format(named[1]))
    moves = connection.execute(
        f"SELECT id, a_split || ' -> ' || b_split FROM joined WHERE {moved} ORDER BY id LIMIT ?", [limit]
    ).fetchall()
    changed_ids = connection.sql(f"SELECT id FROM joined WHERE {changed}").to_arrow_table().column("id")
    return VersionDiff(
        a=named[0],
        b=named[1],
        rows_a=one.rows,
        rows_b=other.rows,
        added=count("a_hash IS NULL"),
        removed=count("b_hash IS NULL"),
        changed=count(changed),
        moved=count(moved),
        same=count(f"{both} AND a_hash = b_hash AND a_split = b_split"),
        why_added=_reasons(connection, "added", *why_added),
        why_removed=_reasons(connection, "removed", *why_removed),
        columns=_columns(a, b, one, other, changed_ids),
        schema_changes=_schema_changes(a, b, one, other),
        filter_changes=tuple(_field_changes(one.filters, other.filters)),
        added_rows=_notes(connection, "added", *why_added, limit),
        removed_rows=_notes(connection, "removed", *why_removed, limit),
        moved_rows=tuple(RowNote(trajectory_id=key, split=split, why="moved") for key, split in moves),
        changed_ids=_first(changed_ids, limit),
    )


def _first(ids: pa.ChunkedArray, limit: int) -> tuple[str, ...]:
    return tuple(ids.take(pc.sort_indices(ids)[:limit]).to_pylist())


def _reasons(connection: duckdb.DuckDBPyConnection, side: str, prefix: str, otherwise: str) -> dict[str, int]:
    found = connection.execute(f"SELECT step, count(*) FROM {side} GROUP BY step ORDER BY 2 DESC, 1").fetchall()
    return {otherwise if step is None else f"{prefix}{step}": count for step, count in found}


def _notes(
    connection: duckdb.DuckDBPyConnection, side: str, prefix: str, otherwise: str, limit: int
) -> tuple[RowNote, ...]:
    found = connection.execute(f"SELECT id, split, step, reason FROM {side} ORDER BY id LIMIT ?", [limit]).fetchall()
    return tuple(
        RowNote(trajectory_id=key, split=split, why=otherwise if step is None else f"{prefix}{reason}")
        for key, split, step, reason in found
    )


def _ids(path: Path, manifest: Manifest) -> pa.Table:
    """Id, hash and split of each row, from their file or from the rows."""
    if manifest.row_hash == "arrow" and _has(manifest, "ids.parquet"):
        return pq.read_table(path / "ids.parquet", columns=_IDS.names, partitioning=None).cast(_IDS)
    return pa.Table.from_batches(_computed_ids(path, manifest), _IDS)


def _computed_ids(path: Path, manifest: Manifest) -> Iterator[pa.RecordBatch]:
    for batch in batches(path):
        rows = pa.Table.from_batches([batch])
        hashes = pa.array([digest.hex() for digest in row_digests(rows)], pa.string())
        ids = identities(rows, manifest.key).combine_chunks()
        split = rows.column("split").combine_chunks() if "split" in rows.column_names else [ONE_SPLIT] * len(ids)
        yield pa.record_batch([ids, hashes, pa.array(split, pa.string())], schema=_IDS)


def _excluded(path: Path, manifest: Manifest) -> pa.Table:
    if not _keeps_excluded(manifest):
        return EXCLUDED.empty_table()
    rows = pq.read_table(path / "excluded.parquet", partitioning=None)
    return pa.table([rows.column(name) for name in EXCLUDED.names], schema=EXCLUDED)


def _keeps_excluded(manifest: Manifest) -> bool:
    return _has(manifest, "excluded.parquet")


def _has(manifest: Manifest, name: str) -> bool:
    return any(file.path == name for file in manifest.documents)


def _columns(a: Path, b: Path, one: Manifest, other: Manifest, changed: pa.ChunkedArray) -> ColumnCounts:
    names = [name for name in _schema(a, one).names if name in set(_schema(b, other).names)]
    wanted = changed if len(changed) <= COMPARED_ROWS else _spread(b, other, changed)
    after = dict(_cell_digests(b, other, names, wanted))
    before = dict(_cell_digests(a, one, names, wanted))
    counts = dict.fromkeys(names, 0)
    unchanged = 0
    for key, cells in after.items():
        differing = [name for name, x, y in zip(names, before[key], cells, strict=True) if x != y]
        unchanged += not differing
        for name in differing:
            counts[name] += 1
    ordered = sorted(((name, count) for name, count in counts.items() if count), key=lambda pair: (-pair[1], pair[0]))
    return ColumnCounts(compared=len(after), differing=dict(ordered), unchanged=unchanged)


def _spread(path: Path, manifest: Manifest, changed: pa.ChunkedArray) -> pa.Array:
    """About COMPARED_ROWS of the changed ids, from a few row groups all over the files: reading a group costs most."""
    groups: list[pa.ChunkedArray] = []
    for entry in manifest.files:
        with pq.ParquetFile(path / entry.path) as file:
            ids = identities(file.read(columns=list(manifest.key)), manifest.key)
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        there = pc.is_in(ids, changed)
        for start, size in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
            if len(found := ids.slice(start, size).filter(there.slice(start, size))):
                groups.append(found)
    chosen = groups[:: -(-len(groups) // COMPARED_GROUPS)]
    each = -(-COMPARED_ROWS // len(chosen))
    taken = [str(key) for group in chosen for key in group.to_pylist()[:: max(1, len(group) // each)]]
    return pa.array(taken, pa.string())


def _cell_digests(
    path: Path, manifest: Manifest, names: Sequence[str], wanted: pa.Array | pa.ChunkedArray
) -> Iterator[tuple[str, list[bytes]]]:
    """Id and the hash of each named column, of the wanted rows; only row groups that have one of them are read."""
    for entry in manifest.files:
        with pq.ParquetFile(path / entry.path) as file:
            ids = identities(file.read(columns=list(manifest.key)), manifest.key)
            there = pc.is_in(ids, wanted)
            start = 0
            for number in range(file.num_row_groups):
                size = file.metadata.row_group(number).num_rows
                chosen = there.slice(start, size)
                start += size
                if pc.any(chosen).as_py():
                    rows = file.read_row_group(number, columns=list(names)).filter(chosen)
                    cells = [row_digests(rows.select([name])) for name in names]
                    keys = identities(rows.select(list(manifest.key)), manifest.key).to_pylist()
                    yield from zip(keys, map(list, zip(*cells, strict=True)), strict=True)


def _schema(path: Path, manifest: Manifest) -> pa.Schema:
    return pq.read_schema(path / manifest.files[0].path)


def _schema_changes(a: Path, b: Path, one: Manifest, other: Manifest) -> tuple[FieldChange, ...]:
    if (one.schema_hash, one.schema_version) == (other.schema_hash, other.schema_version):
        return ()
    before: dict[str, object] = {field.name: str(field.type) for field in _schema(a, one)}
    after: dict[str, object] = {field.name: str(field.type) for field in _schema(b, other)}
    before["schema_version"], after["schema_version"] = one.schema_version, other.schema_version
    return tuple(_field_changes(before, after))


def _field_changes(before: dict[str, object], after: dict[str, object]) -> Iterator[FieldChange]:
    for name in sorted({*before, *after}):
        old = None if name not in before else str(before[name])
        new = None if name not in after else str(after[name])
        if old != new:
            yield FieldChange(name=name, before=old, after=new)
