"""Versions with several rows an attempt: what names a row is its key, and all that works on versions works on them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigurationError
from pipeline.exports.published import published
from pipeline.exports.tasks import NothingToExport
from pipeline.published_checks import unreadable
from pipeline.schemas import TableSchema
from pipeline.snapshots import SnapshotVersion, check, manifest_of, publish, versions
from pipeline.snapshots.diffing import difference
from pipeline.snapshots.keys import identities
from pipeline.snapshots.manifest import parsed
from pipeline.snapshots.publishing import EXCLUDED
from pipeline.snapshots.pulling import pull
from pipeline.snapshots.retention import retain
from pipeline.snapshots.tags import tag
from tests.unit.small_versions import put as put_attempts

KEY = ("trajectory_id", "step_idx")
STEPS = TableSchema(
    "steps",
    1,
    pa.schema(
        [("trajectory_id", pa.string()), ("step_idx", pa.int64()), ("action", pa.string()), ("split", pa.string())]
    ),
)


def steps(*rows: tuple[str, int, str], split: str = "train") -> pa.Table:
    found = [{"trajectory_id": of, "step_idx": at, "action": action, "split": split} for of, at, action in rows]
    return pa.Table.from_pylist(found, schema=STEPS.arrow)


def put(root: Path, *parts: pa.Table, out: tuple[tuple[str, str, str], ...] = ()) -> SnapshotVersion:
    left_out = [dict(zip(EXCLUDED.names, one, strict=False)) for one in out]
    return publish(
        root,
        "steps",
        iter(parts),
        schema_version=1,
        parents=["games@v0001"],
        code_commit=None,
        run_id=None,
        describe=lambda draft: {"README.md": f"{draft.rows} rows\n"},
        summary={},
        excluded=[pa.Table.from_pylist(left_out, schema=EXCLUDED)],
        key=KEY,
        group_rows=1000,
    )


def test_a_row_is_named_by_attempt_and_step(tmp_path: Path) -> None:
    version = put(tmp_path, steps(("a", 0, "x"), ("a", 1, "y")), steps(("b", 0, "x"), split="seen"))
    manifest = manifest_of(version.path)
    assert manifest.key == KEY
    ids = pq.read_table(version.path / "ids.parquet").to_pylist()
    assert [(one["trajectory_id"], one["split"]) for one in ids] == [
        ("a/0", "train"),
        ("a/1", "train"),
        ("b/0", "seen"),
    ]
    assert check(version.path) == []
    assert unreadable(version.path, STEPS) == []


def test_a_key_that_is_there_twice_or_is_not_whole_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a/1 is in the rows 2 times"):
        put(tmp_path, steps(("a", 1, "x"), ("a", 1, "y")))
    without = steps(("a", 0, "x")).set_column(1, "step_idx", pa.array([None], pa.int64()))
    with pytest.raises(ValueError, match=r"a row without a whole key \(trajectory_id, step_idx\)"):
        put(tmp_path, without)
    with pytest.raises(ValueError, match="have no column step_idx"):
        put(tmp_path, steps(("a", 0, "x")).drop_columns(["step_idx"]))
    assert versions(tmp_path, "steps") == []


def test_a_wrong_name_in_the_list_of_ids_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, steps(("a", 0, "x"))).path
    file = path / "ids.parquet"
    path.chmod(0o755)
    file.chmod(0o644)
    ids = pq.read_table(file)
    pq.write_table(ids.set_column(0, "trajectory_id", pa.array(["a"])), file)
    assert unreadable(path, STEPS) == [
        "a (train) is not both in the rows and in ids.parquet",
        "a/0 (train) is not both in the rows and in ids.parquet",
    ]


def test_steps_are_compared_one_by_one_and_attempts_say_why_they_went(tmp_path: Path) -> None:
    before = put(tmp_path, steps(("a", 0, "x"), ("a", 1, "y"), ("b", 0, "x"), ("c", 0, "x")))
    after = put(
        tmp_path, steps(("a", 0, "x"), ("a", 1, "z"), ("a", 2, "y")), out=(("b", "faults", "an action is missing"),)
    )
    found = difference(before.path, after.path)
    assert (found.same, found.changed, found.added, found.removed) == (1, 1, 1, 2)
    assert found.changed_ids == ("a/1",)
    assert found.columns.differing == {"action": 1}
    assert found.why_removed == {"faults": 1, "no longer among the verified rows": 1}
    assert next((one.trajectory_id, one.why) for one in found.removed_rows) == ("b/0", "faults, an action is missing")


def test_versions_whose_rows_are_named_otherwise_are_not_compared(tmp_path: Path) -> None:
    one, other = put(tmp_path, steps(("a", 0, "x"))), put_attempts(tmp_path, "a")
    with pytest.raises(ConfigurationError, match="steps@v0001 names its rows by trajectory_id, step_idx and terminal"):
        difference(one.path, other.path)


def test_the_same_steps_write_nothing_and_another_key_does(tmp_path: Path) -> None:
    put(tmp_path, steps(("a", 0, "x")))
    assert not put(tmp_path, steps(("a", 0, "x"))).created
    other = put_attempts(tmp_path, steps(("a", 0, "x")), name="steps")
    assert (other.created, other.version) == (True, "v0002")


def test_such_a_version_is_tagged_pulled_and_keeps_its_parents(tmp_path: Path) -> None:
    put_attempts(tmp_path, "a", name="games")
    put_attempts(tmp_path, "a", "b", name="games")
    put(tmp_path, steps(("a", 0, "x")))
    tag(tmp_path, "steps", "v0001", "chosen")
    pulled = pull(tmp_path, "steps@chosen", tmp_path / "copy")
    assert (pulled.rows, manifest_of(pulled.path).key) == (1, KEY)
    assert [(fate.version, fate.kept_as) for fate in retain(tmp_path, "games", 1)] == [
        ("v0001", "parent of steps@v0001"),
        ("v0002", "one of the newest 1"),
    ]


def test_exports_of_attempts_say_what_they_take(tmp_path: Path) -> None:
    put(tmp_path, steps(("a", 0, "x")))
    with pytest.raises(
        NothingToExport, match=r"steps@v0001 is no attempt .*exports take attempts, such as games@v0001"
    ):
        published(tmp_path, "steps")


def test_the_manifest_of_attempts_says_nothing_of_a_key(tmp_path: Path) -> None:
    text = (put_attempts(tmp_path, "a").path / "manifest.json").read_text()
    assert "key" not in json.loads(text)
    assert parsed(text, "here").sealed() == text
    stepwise = (put(tmp_path, steps(("a", 0, "x"))).path / "manifest.json").read_text()
    assert parsed(stepwise, "here").sealed() == stepwise


def test_one_column_names_rows_as_it_stands() -> None:
    assert identities(steps(("a/b", 0, "x")), ("trajectory_id",)).to_pylist() == ["a/b"]
