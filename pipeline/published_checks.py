"""Looks at a published version as its readers do, and names what they must not find.

Other code than that which wrote it: DuckDB counts, Arrow reads the rows a part at a time, and the rules of
row_checks.py are asked once more of what was published.

Not here: whether the files are those of the manifest (snapshots/reading.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from pipeline.row_checks import told_step, unearned_fault
from pipeline.schemas import TERMINAL, TableSchema, schema_sha256
from pipeline.snapshots import Manifest, SnapshotDamaged, batches, manifest_of
from pipeline.snapshots.contents import content_sha256
from pipeline.snapshots.keys import named

IDS_FILE = "ids.parquet"
_LOOKED_AT = ("trajectory_id", "outcome", "verified", "tests", "verifier_passing_tests", "instruction", "solution")


def unreadable(path: Path, schema: TableSchema = TERMINAL) -> list[str]:
    """How what readers find in the version in this folder differs from what its manifest says; empty for in nothing.

    `schema` is what this code would write it with.
    """
    try:
        manifest = manifest_of(path)
        faults = [*_other_counts(path, manifest), *_other_ids(path, manifest)]
    except (SnapshotDamaged, duckdb.Error, OSError) as error:
        return [f"cannot be read: {error}"]
    if manifest.schema_version != schema.version or manifest.schema_hash != schema_sha256(schema.arrow):
        faults.append(f"written with version {manifest.schema_version} of the schema, this code has {schema.version}")
    return faults


def _files(path: Path, manifest: Manifest) -> list[str]:
    return [str(path / file.path) for file in manifest.files]


def _other_counts(path: Path, manifest: Manifest) -> list[str]:
    name = named(manifest.key)
    query = f"SELECT split, count(*), count(DISTINCT {name}) FROM read_parquet($files) GROUP BY split"
    with duckdb.connect() as connection:
        found = connection.execute(query, {"files": _files(path, manifest)}).fetchall()
    rows = {split: count for split, count, _ in found}
    faults = [] if rows == manifest.splits else [f"rows by split are {rows}, the manifest has {manifest.splits}"]
    total = sum(rows.values())
    if total != manifest.rows:
        faults.append(f"{total} rows, the manifest has {manifest.rows}")
    return faults + [f"{split}: {count} rows with {ids} ids" for split, count, ids in found if count != ids]


def _other_ids(path: Path, manifest: Manifest) -> list[str]:
    """The list of ids and hashes beside the rows, which tells versions apart without reading them."""
    if not any(document.path == IDS_FILE for document in manifest.documents):
        return []
    query = f"SELECT DISTINCT {named(manifest.key)}, split FROM read_parquet($files)"
    with duckdb.connect() as connection:
        rows = set(connection.execute(query, {"files": _files(path, manifest)}).fetchall())
    listed = pq.read_table(path / IDS_FILE, columns=["trajectory_id", "split", "row_sha256"]).to_pylist()
    other = rows ^ {(row["trajectory_id"], row["split"]) for row in listed}
    faults = [f"{key} ({split}) is not both in the rows and in {IDS_FILE}" for key, split in sorted(other)]
    if content_sha256([bytes.fromhex(row["row_sha256"]) for row in listed]) != manifest.content_sha256:
        faults.append(f"the hashes in {IDS_FILE} are not those of the rows")
    return faults


def unfit(path: Path) -> list[str]:
    """Rows of the data set that must not have been published: not passed, without proof, or telling the solution.

    Raises SnapshotDamaged for a version that cannot be read.
    """
    return sorted(
        f"{row['trajectory_id']}: {fault}"
        for batch in batches(path, _LOOKED_AT)
        for row in batch.to_pylist()
        if (fault := _fault(row))
    )


def _fault(row: Mapping[str, object]) -> str:
    tests, expected, solution = row["tests"] or [], row["verifier_passing_tests"] or [], row["solution"] or []
    assert isinstance(tests, list) and isinstance(expected, list) and isinstance(solution, list)
    if row["outcome"] != "passed" or row["verified"] is not True:
        return f"published with the outcome {row['outcome']}"
    told = told_step(str(row["instruction"]), solution)
    return unearned_fault(tests, expected) or (f"the instruction says {told[:120]!r}" if told else "")
