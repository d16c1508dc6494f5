"""What readers of a version must not find is named before anyone is told of the version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.published_checks import IDS_FILE, unfit, unreadable
from pipeline.schemas import TERMINAL, Row, to_arrow
from pipeline.snapshots import SnapshotVersion, manifest_of
from tests.unit.small_versions import put, rows

TEST = {"test_id": "test_state.py::test_one", "outcome": "passed", "message": ""}
SOUND: Row = {
    "trajectory_id": "traj-0",
    "outcome": "passed",
    "verified": True,
    "tests": [TEST],
    "verifier_passing_tests": ["test_state.py::test_one"],
    "instruction": "Count the lines of notes.txt.",
    "solution": ["wc -l notes.txt > count.txt"],
    "split": "train",
}


def version(root: Path, *others: Row, schema_version: int = TERMINAL.version) -> SnapshotVersion:
    found = [SOUND, SOUND | {"trajectory_id": "traj-1", "split": "test"}]
    found += [SOUND | {"trajectory_id": f"other-{number}"} | row for number, row in enumerate(others)]
    return put(root, to_arrow(TERMINAL, found), schema_version=schema_version)


def test_a_sound_version_is_read_as_its_manifest_says_and_every_row_is_proven(tmp_path: Path) -> None:
    path = version(tmp_path).path
    assert (unreadable(path), unfit(path)) == ([], [])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"outcome": "failed"}, "published with the outcome failed"),
        ({"verified": None}, "published with the outcome passed"),
        ({"tests": []}, "no test ran"),
        ({"tests": [TEST | {"outcome": "skipped"}]}, "not passed: test_state.py::test_one skipped"),
        ({"verifier_passing_tests": ["test_state.py::test_two"]}, "other tests than at admission"),
        ({"instruction": "Do `wc -l notes.txt > count.txt`."}, "the instruction says 'wc -l notes.txt > count.txt'"),
    ],
)
def test_a_row_that_must_not_be_published_is_named(tmp_path: Path, row: Row, said: str) -> None:
    (fault,) = unfit(version(tmp_path, row).path)
    assert fault.startswith(f"other-0: {said}")


def _fewer_rows(path: Path) -> None:
    file = next((path / "data").glob("train-*"))
    pq.write_table(pq.read_table(file, partitioning=None).slice(0, 0), file)


def _twice(path: Path) -> None:
    file = next((path / "data").glob("train-*"))
    table = pq.read_table(file, partitioning=None)
    pq.write_table(pa.concat_tables([table, table]), file)


def _other_ids(path: Path) -> None:
    table = pq.read_table(path / IDS_FILE)
    pq.write_table(table.slice(1), path / IDS_FILE)


def _other_hash(path: Path) -> None:
    table = pq.read_table(path / IDS_FILE)
    hashes = pa.array(["0" * 64, *table["row_sha256"].to_pylist()[1:]])
    pq.write_table(table.set_column(table.column_names.index("row_sha256"), "row_sha256", hashes), path / IDS_FILE)


def _no_file(path: Path) -> None:
    next((path / "data").glob("test-*")).unlink()


def _no_manifest(path: Path) -> None:
    place = path / "manifest.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"rows": 7}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_fewer_rows, "rows by split are"),
        (_twice, "train: 2 rows with 1 ids"),
        (_other_ids, "is not both in the rows and in ids.parquet"),
        (_other_hash, "the hashes in ids.parquet are not those of the rows"),
        (_no_file, "cannot be read"),
        (_no_manifest, "cannot be read"),
    ],
)
def test_a_version_that_does_not_read_back_is_told_apart(
    tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    path = version(tmp_path).path
    harm(path)
    assert said in "; ".join(unreadable(path))


def test_a_version_of_another_schema_is_told_apart(tmp_path: Path) -> None:
    (fault,) = unreadable(version(tmp_path, schema_version=2).path)
    assert fault == f"written with version 2 of the schema, this code has {TERMINAL.version}"
    path = put(tmp_path / "other", rows("a"), schema_version=TERMINAL.version).path
    assert len(unreadable(path)) == 1 and manifest_of(path).rows == 1
