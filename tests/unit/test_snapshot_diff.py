"""What a diff of two versions says of rows, reasons, columns, schemas and filters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pipeline.snapshots.diffing
from pipeline.snapshots import SnapshotDamaged
from pipeline.snapshots.diffing import FieldChange, VersionDiff, difference
from tests.unit.small_versions import put, put_first_layout, rows


def counts(found: VersionDiff) -> tuple[int, int, int, int, int]:
    return found.added, found.removed, found.changed, found.moved, found.same


def test_rows_are_added_removed_changed_moved_or_the_same(tmp_path: Path) -> None:
    a = put(tmp_path, "same", "went", "other", "moves").path
    b = put(tmp_path, "same", "came", rows("other", text="y"), rows("moves", split="test")).path
    found = difference(a, b)
    assert (found.a, found.b, found.rows_a, found.rows_b) == ("terminal@v0001", "terminal@v0002", 4, 4)
    assert counts(found) == (1, 1, 2, 1, 1)
    assert [(row.trajectory_id, row.split, row.why) for row in found.added_rows] == [("came", "train", "new")]
    assert [(row.trajectory_id, row.split) for row in found.moved_rows] == [("moves", "train -> test")]
    assert found.changed_ids == ("moves", "other")
    assert (found.columns.compared, found.columns.differing) == (2, {"split": 1, "text": 1})


def test_a_removed_row_is_explained_by_the_list_of_what_b_left_out(tmp_path: Path) -> None:
    a = put(tmp_path, "stays", "w1", "w2", "w3").path
    out = [("w1", "licence", "none was found"), ("w2", "near_copy", "0.9 alike", "stays"), ("w2", "scrub", "second")]
    b = put(tmp_path, "stays", excluded=out).path
    found = difference(a, b)
    assert found.why_removed == {"licence": 1, "near_copy": 1, "no longer among the verified rows": 1}
    assert [row.why for row in found.removed_rows] == [
        "licence, none was found",
        "near_copy, 0.9 alike, stays",
        "no longer among the verified rows",
    ]


def test_an_added_row_is_explained_by_the_list_of_what_a_left_out(tmp_path: Path) -> None:
    a = put(tmp_path, "stays", excluded=[("c1", "contaminated", "task 7"), ("stays", "odd", "odd")]).path
    b = put(tmp_path, "stays", "c1", "c2").path
    found = difference(a, b)
    assert found.why_added == {"new": 1, "was left out of terminal@v0001: contaminated": 1}
    assert found.added_rows[0].why == "was left out of terminal@v0001: contaminated, task 7"
    assert difference(b, a).why_removed == {"contaminated": 1, "no longer among the verified rows": 1}


def test_only_so_many_rows_are_named_and_all_are_counted(tmp_path: Path) -> None:
    a = put(tmp_path, "x").path
    b = put(tmp_path, *(f"t{n:03d}" for n in range(50))).path
    found = difference(a, b, limit=2)
    assert (found.added, [row.trajectory_id for row in found.added_rows]) == (50, ["t000", "t001"])


def test_changes_of_schema_and_filters_are_named(tmp_path: Path) -> None:
    a = put(tmp_path, "a", filters={"licenses": ["MIT"], "near": 0.8}).path
    wider = rows("a").append_column("n", pa.array([1], pa.int64()))
    b = put(tmp_path, wider, filters={"licenses": ["MIT", "ISC"], "denied": []}, schema_version=2).path
    found = difference(a, b)
    assert found.schema_changes == (
        FieldChange(name="n", before=None, after="int64"),
        FieldChange(name="schema_version", before="1", after="2"),
    )
    assert found.filter_changes == (
        FieldChange(name="denied", before=None, after="[]"),
        FieldChange(name="licenses", before="['MIT']", after="['MIT', 'ISC']"),
        FieldChange(name="near", before="0.8", after=None),
    )
    assert (found.changed, found.columns.unchanged, found.columns.differing) == (1, 1, {})


def test_a_version_of_the_first_layout_is_compared_by_its_rows(tmp_path: Path) -> None:
    old = pa.concat_tables([rows("a", "b", "went"), rows("c", text="old")])
    a = put_first_layout(tmp_path, old)
    b = put(tmp_path, "a", "b", rows("c", text="new"), "came").path
    found = difference(a, b)
    assert counts(found) == (1, 1, 1, 0, 2)
    assert found.why_added == {"unknown: terminal@v0001 has no list of what was left out": 1}
    assert found.columns.differing == {"text": 1}


def test_of_many_changed_rows_some_from_all_files_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.snapshots.diffing, "COMPARED_ROWS", 60)
    monkeypatch.setattr(pipeline.snapshots.diffing, "COMPARED_GROUPS", 4)
    train, test = [f"t{n:03d}" for n in range(450)], [f"u{n:03d}" for n in range(150)]
    a = put(tmp_path, rows(*train), rows(*test)).path
    b = put(tmp_path, rows(*train, text="y"), rows(*test, split="test")).path
    found = difference(a, b)
    assert (found.changed, found.moved) == (600, 150)
    assert 60 <= found.columns.compared < 120
    assert set(found.columns.differing) == {"text", "split"}
    assert sum(found.columns.differing.values()) == found.columns.compared


def test_a_version_compared_with_itself_has_no_difference(tmp_path: Path) -> None:
    path = put(tmp_path, "a", "b").path
    assert counts(difference(path, path)) == (0, 0, 0, 0, 2)


def test_a_damaged_version_is_named(tmp_path: Path) -> None:
    a, b = put(tmp_path, "a").path, put(tmp_path, "b").path
    (b / "ids.parquet").chmod(0o644)
    (b / "ids.parquet").write_bytes(b"x")
    with pytest.raises(SnapshotDamaged, match="v0002 cannot be compared"):
        difference(a, b)
