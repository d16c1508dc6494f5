from __future__ import annotations

import json
import shutil
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline.snapshots.writing
from pipeline.cards import front_matter
from pipeline.schemas import TERMINAL, to_arrow
from pipeline.snapshots import (
    Draft,
    SnapshotDamaged,
    SnapshotVersion,
    check,
    load,
    locate,
    manifest_of,
    publish,
    versions,
)


def rows(*keys: str, **columns: object) -> pa.Table:
    steps = [{"index": 0, "action": "ls", "seconds": 0.1, "extra": "{}"}]
    base = {
        "split": "train",
        "license": "MIT",
        "language": "go",
        "steps": steps,
        "messages": [{"role": "user", "content": "do"}],
    }
    return to_arrow(TERMINAL, [{"trajectory_id": key, **base, **columns} for key in keys])


def described(draft: Draft) -> Mapping[str, str | bytes]:
    return {"README.md": f"# Terminal\n\n{draft.rows} rows, {draft.summary}\n", "plots/funnel.png": b"PNG"}


def put(root: Path, table: pa.Table, **changes: object) -> SnapshotVersion:
    options: dict[str, object] = {
        "schema_version": 1,
        "parents": ["trajectories"],
        "code_commit": "abc",
        "run_id": "run-1",
        "summary": {"verified": table.num_rows},
        "describe": described,
    }
    return publish(root, "terminal", table, **{**options, **changes})  # type: ignore[arg-type]


def writable(path: Path) -> Path:
    path.parent.chmod(0o755)
    path.chmod(0o644)
    return path


def test_a_version_gives_back_its_rows_and_checks_clean(tmp_path: Path) -> None:
    table = rows("a", "b")
    version = put(tmp_path, table)
    assert (version.name, version.version, version.created, version.rows) == ("terminal", "v0001", True, 2)
    assert version.path == tmp_path / "snapshots" / "terminal" / "v0001"
    assert load(version.path).equals(table)
    assert check(version.path) == []


def test_the_manifest_says_what_it_is_and_where_it_came_from(tmp_path: Path) -> None:
    path = put(tmp_path, rows("a")).path
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["parents"] == ["trajectories"]
    assert (manifest["code_commit"], manifest["run_id"], manifest["summary"]) == ("abc", "run-1", {"verified": 1})
    (file,) = manifest["files"]
    assert (file["path"], file["rows"], file["bytes"]) == (
        "data/train-00000.parquet",
        1,
        (path / "data/train-00000.parquet").stat().st_size,
    )


def test_the_same_rows_in_another_order_and_run_write_nothing(tmp_path: Path) -> None:
    put(tmp_path, rows("a", "b"))
    slower = [{"index": 0, "action": "ls", "seconds": 7.0, "extra": "{}"}]
    again = put(tmp_path, rows("b", "a", steps=slower), run_id="run-2")
    assert (again.version, again.created) == ("v0001", False)
    assert [version.version for version in versions(tmp_path, "terminal")] == ["v0001"]


def test_other_rows_or_another_schema_version_write_the_next_version(tmp_path: Path) -> None:
    put(tmp_path, rows("a"))
    assert put(tmp_path, rows("a", "b")).version == "v0002"
    assert put(tmp_path, rows("a", "b"), schema_version=2).version == "v0003"
    assert put(tmp_path, rows("a"), schema_version=2).version == "v0004"


def test_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="snapshot 'terminal' would have no rows"):
        put(tmp_path, rows())
    assert not (tmp_path / "snapshots").exists()


@pytest.mark.parametrize("name", ["", "../x", "A", ".x"])
def test_an_unusable_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        publish(
            tmp_path,
            name,
            rows("a"),
            schema_version=1,
            parents=[],
            code_commit=None,
            run_id=None,
            summary={},
            describe=described,
        )


def test_nobody_may_write_to_a_version(tmp_path: Path) -> None:
    path = put(tmp_path, rows("a")).path
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) & 0o222 for p in [path, *path.rglob("*")]}
    assert set(modes) == {
        "v0001",
        "data",
        "train-00000.parquet",
        "manifest.json",
        "README.md",
        "ids.parquet",
        "excluded.parquet",
        "plots",
        "funnel.png",
    }
    assert set(modes.values()) == {0}


def test_a_tampered_file_is_named_and_not_loaded(tmp_path: Path) -> None:
    path = put(tmp_path, rows("a")).path
    pq.write_table(rows("z"), writable(path / "data" / "train-00000.parquet"))
    assert check(path) == ["data/train-00000.parquet was changed"]
    with pytest.raises(SnapshotDamaged, match=r"data/train-00000.parquet was changed"):
        load(path)


def test_a_missing_a_foreign_and_an_edited_file_are_each_named(tmp_path: Path) -> None:
    path = put(tmp_path, rows("a")).path
    writable(path / "data" / "train-00000.parquet").unlink()
    (path / "data" / "train-00001.parquet").write_bytes(b"x")
    writable(path / "README.md").write_text("other")
    assert check(path) == [
        "data/train-00000.parquet is missing",
        "README.md was changed",
        "data/train-00001.parquet does not belong to this version",
    ]


def test_an_edited_manifest_is_found(tmp_path: Path) -> None:
    path = put(tmp_path, rows("a")).path
    manifest = writable(path / "manifest.json")
    manifest.write_text(manifest.read_text().replace("run-1", "run-2"))
    assert check(path) == [f"{path}/manifest.json was changed after it was published"]
    manifest.write_text("{")
    assert "cannot be read" in check(path)[0]


def test_a_version_under_another_number_is_found(tmp_path: Path) -> None:
    path = put(tmp_path, rows("a")).path
    copy = tmp_path / "snapshots" / "terminal" / "v0002"
    shutil.copytree(path, copy)
    assert check(copy) == ["the manifest is that of v0001"]


def test_what_a_killed_publisher_left_is_removed_and_never_a_version(tmp_path: Path) -> None:
    left = tmp_path / "snapshots" / "terminal" / ".unfinished-v0001" / "data"
    left.mkdir(parents=True)
    (left / "train-00000.parquet").write_bytes(b"half")
    left.chmod(0o555)
    assert versions(tmp_path, "terminal") == []
    assert put(tmp_path, rows("a")).version == "v0001"
    assert [p.name for p in (tmp_path / "snapshots" / "terminal").iterdir()] == ["v0001"]


def test_two_publishers_at_once_get_two_versions_or_one(tmp_path: Path) -> None:
    found: list[SnapshotVersion] = []
    tables = [rows("a"), rows("b"), rows("b"), rows("b")]
    threads = [threading.Thread(target=lambda t=t: found.append(put(tmp_path, t))) for t in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    present = versions(tmp_path, "terminal")
    assert sorted(v.version for v in found if v.created) == [v.version for v in present]
    assert 2 <= len(present) <= 3
    assert [check(v.path) for v in present] == [[]] * len(present)


def test_a_reference_is_a_name_or_a_name_with_a_version(tmp_path: Path) -> None:
    first, second = put(tmp_path, rows("a")), put(tmp_path, rows("b"))
    assert locate(tmp_path, "terminal") == second.path
    assert locate(tmp_path, "terminal/v0001") == first.path
    with pytest.raises(ValueError, match="no snapshot 'terminal/v0009'; 'terminal' has v0001, v0002"):
        locate(tmp_path, "terminal/v0009")
    with pytest.raises(ValueError, match="'other' has no version"):
        locate(tmp_path, "other")


def test_large_rows_are_divided_into_small_row_groups_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.snapshots.writing, "GROUP_BYTES", 20_000)
    monkeypatch.setattr(pipeline.snapshots.writing, "SHARD_BYTES", 100_000)
    table = rows(*(f"t{n}" for n in range(250)), instruction="x" * 1000)
    path = put(tmp_path, table).path
    files = [path / file.path for file in manifest_of(path).files]
    assert len(files) > 2
    metadata = [pq.ParquetFile(file).metadata for file in files]
    sizes = [part.row_group(n).num_rows for part in metadata for n in range(part.num_row_groups)]
    assert max(sizes) <= 20
    assert load(path).equals(table)


def test_more_than_100_small_rows_never_share_a_row_group(tmp_path: Path) -> None:
    path = put(tmp_path, rows(*(f"t{n}" for n in range(250)))).path
    metadata = pq.ParquetFile(path / "data" / "train-00000.parquet").metadata
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [100, 100, 50]


def test_a_first_shard_of_nulls_does_not_hide_the_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.snapshots.writing, "GROUP_ROWS", 1)
    monkeypatch.setattr(pipeline.snapshots.writing, "SHARD_BYTES", 1)
    table = pa.concat_tables([rows("a"), rows("b", solution=["ls"], model="m")])
    path = put(tmp_path, table).path
    files = sorted(str(file) for file in (path / "data").iterdir())
    found = duckdb.execute("SELECT trajectory_id, solution, model FROM read_parquet(?) ORDER BY 1", [files]).fetchall()
    assert found == [("a", None, None), ("b", ["ls"], "m")]


def test_odd_text_in_card_and_summary_is_published(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        rows("a"),
        describe=lambda draft: {"README.md": f"# \ud800 ü {draft.rows}\n"},
        summary={"odd": "\udcff", "path": Path("x")},
    ).path
    assert check(path) == []
    assert (path / "README.md").read_text() == "# \ufffd ü 1\n"
    assert manifest_of(path).summary == {"odd": "\ufffd", "path": "x"}


def test_the_head_of_the_card_names_licences_splits_and_features(tmp_path: Path) -> None:
    table = pa.concat_tables([rows("a"), rows("b", license="GPL-3.0-only"), rows("c", license=None)])
    heads: list[str] = []

    def head_only(draft: Draft) -> Mapping[str, str | bytes]:
        heads.append(front_matter(draft))
        return {"README.md": heads[0]}

    path = put(tmp_path, table, describe=head_only).path
    lines = heads[0].splitlines()
    head = dict(line.split(": ", 1) for line in lines if line != "---")
    assert (lines[0], lines[-1]) == ("---", "---")
    assert json.loads(head["license"]) == ["mit", "other"]
    assert json.loads(head["size_categories"]) == ["n<1K"]
    info = json.loads(head["dataset_info"])
    assert info["splits"] == [{"name": "train", "num_bytes": info["dataset_size"], "num_examples": 3}]
    assert info["download_size"] == (path / "data/train-00000.parquet").stat().st_size
    features = {feature.pop("name"): feature for feature in info["features"]}
    assert list(features) == table.column_names
    assert features["n_turns"] == {"dtype": "int64"}
    assert features["solution"] == {"list": "string"}
    assert features["messages"] == {
        "list": [{"name": "role", "dtype": "string"}, {"name": "content", "dtype": "string"}]
    }
