"""Versions that are written part by part: splits, ids, what was left out, and what stops a version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.snapshots import (
    Draft,
    SnapshotDamaged,
    SnapshotVersion,
    batches,
    check,
    load,
    locate,
    manifest_of,
    publish,
    versions,
)
from pipeline.snapshots.publishing import EXCLUDED, REMOVED
from pipeline.snapshots.writing import VersionWriter
from tests.unit.small_versions import put_first_layout

SCHEMA = pa.schema([("trajectory_id", pa.string()), ("text", pa.string()), ("split", pa.string())])


def part(*keys: str, split: str = "train", text: str = "x") -> pa.Table:
    return pa.Table.from_pylist([{"trajectory_id": key, "text": text, "split": split} for key in keys], schema=SCHEMA)


def described(draft: Draft) -> Mapping[str, str | bytes]:
    return {"README.md": f"{draft.rows} rows\n"}


def put(root: Path, *parts: pa.Table, excluded: tuple[pa.Table, ...] = ()) -> SnapshotVersion:
    return put_all(root, parts, excluded)


def put_all(root: Path, parts: Iterable[pa.Table], excluded: tuple[pa.Table, ...] = ()) -> SnapshotVersion:
    return publish(
        root,
        "terminal",
        iter(parts),
        schema_version=1,
        parents=[],
        code_commit=None,
        run_id=None,
        describe=described,
        summary={},
        filters={"licenses": ["MIT"]},
        excluded=excluded,
    )


def left(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "snapshots" / "terminal").iterdir())


def test_each_split_has_its_files_and_can_be_read_alone(tmp_path: Path) -> None:
    version = put(tmp_path, part("a", "b"), part("c", split="test"), part("d"), part("e", split="validation"))
    assert sorted(path.name for path in (version.path / "data").iterdir()) == [
        "test-00000.parquet",
        "train-00000.parquet",
        "validation-00000.parquet",
    ]
    assert manifest_of(version.path).splits == {"test": 1, "train": 3, "validation": 1}
    found = [row["trajectory_id"] for batch in batches(version.path, split="train") for row in batch.to_pylist()]
    assert found == ["a", "b", "d"]
    assert sum(batch.num_rows for batch in batches(version.path)) == 5
    assert [batch.schema.names for batch in batches(version.path, ["text"], "test")] == [["text"]]
    with pytest.raises(ValueError, match=r"no split 'dev'; it has test \(1\), train \(3\), validation \(1\)"):
        list(batches(version.path, split="dev"))


def test_ids_say_the_hash_and_the_split_of_each_row(tmp_path: Path) -> None:
    version = put(tmp_path, part("b", "a"), part("c", split="test", text="y"))
    ids = pq.read_table(version.path / "ids.parquet").to_pylist()
    assert [(row["trajectory_id"], row["split"]) for row in ids] == [("a", "train"), ("b", "train"), ("c", "test")]
    assert len({row["row_sha256"] for row in ids}) == 3
    again = put(tmp_path, part("a", text="z"), part("b"), part("c", split="test", text="y"))
    other = pq.read_table(again.path / "ids.parquet").to_pylist()
    assert [one == two for one, two in zip(ids, other, strict=True)] == [False, True, True]


def test_what_was_left_out_is_kept_with_its_reason_and_makes_no_version(tmp_path: Path) -> None:
    out = pa.Table.from_pylist(
        [{"trajectory_id": "z", "step": "licence", "reason": "none was found", "other": None}], schema=EXCLUDED
    )
    version = put(tmp_path, part("a"), excluded=(out, out.slice(1)))
    assert pq.read_table(version.path / "excluded.parquet").equals(out)
    assert manifest_of(version.path).filters == {"licenses": ["MIT"]}
    assert check(version.path) == []
    assert not put(tmp_path, part("a")).created


def test_an_id_that_is_there_twice_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a is in the rows 2 times"):
        put(tmp_path, part("a", "b"), part("a", split="test"))
    assert left(tmp_path) == []


def test_a_row_without_a_split_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a row without a split: a"):
        put(tmp_path, part("a", split=""))
    assert left(tmp_path) == []


def test_what_fails_while_rows_come_publishes_nothing_and_is_raised(tmp_path: Path) -> None:
    def rows() -> Iterator[pa.Table]:
        yield part(*(f"t{n}" for n in range(150)))
        raise RuntimeError("the table is gone")

    with pytest.raises(RuntimeError, match="the table is gone"):
        put(tmp_path, *rows())
    with pytest.raises(RuntimeError, match="the table is gone"):
        publish(
            tmp_path,
            "terminal",
            rows(),
            schema_version=1,
            parents=[],
            code_commit=None,
            run_id=None,
            describe=described,
            summary={},
        )
    assert left(tmp_path) == []


def test_a_file_that_lies_about_its_rows_is_found_before_it_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded fault: what is read back is one row short of what was written."""

    class Forgetful(pq.ParquetFile):  # type: ignore[misc]
        def read_row_groups(self, *args: object, **options: object) -> pa.Table:
            return super().read_row_groups(*args, **options).slice(1)

    monkeypatch.setattr(pq, "ParquetFile", Forgetful)
    with pytest.raises(SnapshotDamaged, match=r"train-00000.parquet does not give back the rows"):
        put(tmp_path, part("a", "b"))
    assert left(tmp_path) == []


def test_a_file_that_lacks_a_row_group_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(pq.ParquetWriter):  # type: ignore[misc]
        def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
            if table.num_rows == 100:
                super().write_table(table, row_group_size=row_group_size)

    monkeypatch.setattr(pq, "ParquetWriter", Short)
    with pytest.raises(SnapshotDamaged, match=r"train-00000.parquet does not give back the rows"):
        put(tmp_path, part(*(f"t{n}" for n in range(150))))
    assert left(tmp_path) == []


def test_a_file_that_cannot_be_read_back_ends_the_writing_before_all_rows_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded fault: the disk gives back other bytes than it was given, in a file that is not the last."""
    came = []

    def rows() -> Iterator[pa.Table]:
        for number in range(50):
            came.append(number)
            yield part(*(f"{number}/{n}" for n in range(100)))

    def damaged(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) // 2 - 8 : len(content) // 2 + 8] = bytes(16)
        path.write_bytes(content)

    monkeypatch.setattr("pipeline.snapshots.writing.sync", damaged)
    monkeypatch.setattr("pipeline.snapshots.writing.SHARD_BYTES", 3_000)
    with pytest.raises(SnapshotDamaged, match=r"train-0000\d.parquet cannot be read back"):
        put_all(tmp_path, rows())
    assert len(came) < 50
    assert left(tmp_path) == []


def test_files_are_read_back_in_parts_even_when_they_are_next_to_nothing_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []

    class Watched(pq.ParquetFile):  # type: ignore[misc]
        def read_row_groups(self, numbers: list[int], *args: object, **options: object) -> pa.Table:
            read.append(numbers)
            return super().read_row_groups(numbers, *args, **options)

    monkeypatch.setattr(pq, "ParquetFile", Watched)
    monkeypatch.setattr("pipeline.snapshots.writing.TOGETHER_BYTES", 2_000_000)
    put(tmp_path, *(part(*(f"{number}/{n}" for n in range(100)), text="x" * 10_000) for number in range(5)))
    assert read == [[0, 1], [2, 3], [4]]


def test_parts_of_any_size_fill_the_same_row_groups(tmp_path: Path) -> None:
    def groups(folder: Path, *sizes: int) -> list[int]:
        with VersionWriter(folder, SCHEMA) as writer:
            at = 0
            for size in sizes:
                writer.write(part(*(f"t{n}" for n in range(at, at + size))))
                at += size
            writer.finish()
        metadata = pq.ParquetFile(folder / "data" / "train-00000.parquet").metadata
        return [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]

    assert groups(tmp_path / "a", 250) == groups(tmp_path / "b", *[1] * 250) == [100, 100, 50]
    assert groups(tmp_path / "c", 99, 2, 149) == [100, 100, 50]


def streamed(rows: pa.Table) -> pa.Table:
    """The rows as they come from a stream: all columns in one buffer, so that a slice of one holds the others."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return pa.Table.from_batches(list(pa.ipc.open_stream(sink.getvalue())))


def test_what_was_written_is_not_held_until_the_end(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    with VersionWriter(tmp_path, SCHEMA) as writer:
        for number in range(60):
            writer.write(streamed(part(*(f"{number}/{n}" for n in range(100)), text="x" * 50_000)))
        assert pa.total_allocated_bytes() - before < 40 * 100 * 50_000
        assert writer.finish().ids.num_rows == 6_000


def test_the_number_of_a_removed_version_is_never_given_again(tmp_path: Path) -> None:
    put(tmp_path, part("a"))
    removed = tmp_path / "snapshots" / "terminal" / REMOVED
    removed.mkdir()
    (removed / "v0007.json").write_text("{}")
    assert put(tmp_path, part("b")).version == "v0008"


def test_a_reference_may_be_a_tag_or_a_day(tmp_path: Path) -> None:
    first, second = put(tmp_path, part("a")), put(tmp_path, part("b"))
    tags = tmp_path / "snapshots" / "terminal" / "tags"
    tags.mkdir()
    (tags / "nightly-2026-01-02").write_text("v0001\n")
    assert locate(tmp_path, "terminal@v0001") == locate(tmp_path, "terminal@nightly-2026-01-02") == first.path
    assert locate(tmp_path, "terminal@latest") == locate(tmp_path, "terminal@9999-12-31") == second.path
    with pytest.raises(ValueError, match="'terminal' has v0001, v0002, nightly-2026-01-02"):
        locate(tmp_path, "terminal@2000-01-01")


def test_a_version_of_the_first_layout_still_checks(tmp_path: Path) -> None:
    """Written by earlier code: the hash of a row was that of its JSON text, the manifest named no documents."""
    rows = part("a", "b")
    folder = put_first_layout(tmp_path, rows)
    assert check(folder) == []
    assert load(folder).equals(rows)
    assert manifest_of(folder).splits == {"train": 2}
    assert [v.version for v in versions(tmp_path, "terminal")] == ["v0001"]
    assert put(tmp_path, rows).version == "v0002"
    assert json.loads((folder / "manifest.json").read_text())["row_hash"] == "json"
