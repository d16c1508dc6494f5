from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import pipeline.tables
from pipeline.errors import ConfigurationError
from pipeline.schemas import TABLES, RowInvalid, to_rows
from pipeline.tables import EMPTY_ATTEMPT, LOG_PROPERTIES, Store, TableDamaged


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data folder ü")


def score(key: str, attempt: int = 1, **columns: object) -> dict[str, object]:
    return {"repository_id": key, "item_key": key, "attempt": attempt, "reason": "", **columns}


def ids(table: pa.Table) -> list[object]:
    return sorted(table.column("repository_id").to_pylist())


def test_a_missing_table_reads_as_empty_with_its_schema(store: Store) -> None:
    assert store.read("scores").schema == store.current("scores").schema == TABLES["scores"].arrow
    assert store.read("scores").num_rows == 0
    assert store.files("scores") == []


def test_a_repeated_append_writes_once(store: Store) -> None:
    assert store.append("scores", [score("a")], app_id="run", sequence=1)
    assert not store.append("scores", [score("a")], app_id="run", sequence=1)
    assert store.append("scores", [score("b")], app_id="run", sequence=2)
    assert not store.append("scores", [score("a")], app_id="run", sequence=1)
    assert ids(store.read("scores")) == ["a", "b"]


def test_sequences_of_different_writers_are_independent(store: Store) -> None:
    store.append("scores", [score("a")], app_id="one", sequence=5)
    assert store.append("scores", [score("b")], app_id="two", sequence=1)


def test_a_row_that_does_not_fit_leaves_the_table_unwritten(store: Store) -> None:
    with pytest.raises(RowInvalid, match="table scores has no column 'x'"):
        store.append("scores", [score("a"), {"x": 1}], app_id="run", sequence=1)
    assert store.read("scores").num_rows == 0
    assert store.append("scores", [score("a")], app_id="run", sequence=1)


def test_current_holds_all_rows_of_the_latest_attempt_of_each_item(store: Store) -> None:
    rows = [score("a"), score("a2", item_key="a", attempt=2), score("a3", item_key="a", attempt=2), score("b")]
    store.append("scores", rows, app_id="run", sequence=1)
    assert ids(store.current("scores")) == ["a2", "a3", "b"]


def test_current_leaves_out_an_item_whose_latest_attempt_has_no_rows(store: Store) -> None:
    rows = [score("a"), {"item_key": "a", "attempt": 2, "reason": EMPTY_ATTEMPT}]
    store.append("scores", rows, app_id="run", sequence=1)
    assert store.current("scores").num_rows == 0
    assert store.read("scores").num_rows == 2


def test_many_small_files_are_merged_and_no_old_file_is_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.tables, "SMALL_FILES", 4)
    files: set[str] = set()
    for number in range(7):
        store.append("scores", [score(f"r{number}")], app_id="run", sequence=number)
        files |= set(store.files("scores"))
    assert len(store.files("scores")) <= 4
    assert ids(store.read("scores")) == [f"r{number}" for number in range(7)]
    assert all(Path(file).is_file() for file in files)
    assert not store.append("scores", [score("again")], app_id="run", sequence=6)
    codecs = {pq.ParquetFile(file).metadata.row_group(0).column(0).compression for file in store.files("scores")}
    assert codecs == {"ZSTD"}


def test_duckdb_reads_the_file_list(store: Store) -> None:
    store.append("scores", [score("a", score=0.25), score("b", score=0.75)], app_id="run", sequence=1)
    found = duckdb.execute("SELECT sum(score), count(*) FROM read_parquet(?)", [store.files("scores")]).fetchall()
    assert found == [(1.0, 2)]


def test_a_table_of_an_older_schema_is_read_and_appended_to(store: Store) -> None:
    old = TABLES["scores"].arrow.empty_table().drop_columns(["features"])
    row = pa.Table.from_pylist([score("a")], schema=old.schema)
    store.path("scores").mkdir(parents=True)
    write_deltalake(str(store.path("scores")), row)
    store.append("scores", [score("b", features={"x": 1})], app_id="run", sequence=1)
    assert [
        row["features"] for row in sorted(to_rows(store.read("scores")), key=lambda r: str(r["repository_id"]))
    ] == [
        None,
        [{"key": "x", "value": 1.0}],
    ]


def test_trajectories_are_written_in_row_groups_of_at_most_100(store: Store) -> None:
    store.append("trajectories", [{"trajectory_id": str(n)} for n in range(250)], app_id="run", sequence=1)
    (file,) = store.files("trajectories")
    metadata = pq.ParquetFile(file).metadata
    assert max(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)) <= 100


def test_the_writers_number_survives_a_checkpoint_of_the_log(store: Store) -> None:
    store.append("scores", [score("a")], app_id="run", sequence=7)
    DeltaTable(str(store.path("scores"))).create_checkpoint()
    assert not store.append("scores", [score("a")], app_id="run", sequence=7)


@pytest.mark.parametrize("name", ["a[1]", "a%20b", "a*"])
def test_a_data_folder_the_table_format_cannot_address_is_refused_with_a_remedy(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="choose another one"):
        Store(tmp_path / name)


def test_a_table_whose_file_is_gone_says_so_with_its_remedy(store: Store) -> None:
    store.append("scores", [score("a")], app_id="run", sequence=1)
    Path(store.files("scores")[0]).unlink()
    with pytest.raises(TableDamaged, match=r"table scores cannot be read.*--data"):
        store.read("scores")


def test_the_keys_of_a_table_are_those_of_all_attempts(store: Store) -> None:
    assert list(store.keys("scores")) == []
    store.append("scores", [score("a"), score("a", 2), score("b")], app_id="run", sequence=1)
    assert sorted(store.keys("scores")) == ["a", "a", "b"]


def test_a_text_with_a_line_separator_is_kept(store: Store) -> None:
    store.append("scores", [score("a", scorer="one\u2028two\x85")], app_id="w", sequence=1)
    assert store.read("scores").column("scorer").to_pylist() == ["one\u2028two\x85"]


def test_columns_that_are_named_are_those_that_come(store: Store) -> None:
    rows = [score("a", kept=True), score("b"), score("b2", item_key="b", attempt=2, kept=False)]
    store.append("scores", rows, app_id="run", sequence=1)
    found = store.current("scores", ["kept", "repository_id"])
    assert found.column_names == ["kept", "repository_id"]
    assert sorted(map(str, found.to_pylist())) == sorted(
        map(str, [{"kept": True, "repository_id": "a"}, {"kept": False, "repository_id": "b2"}])
    )
    assert store.current("image_builds", ["smoke_ok"]).column_names == ["smoke_ok"]
    with pytest.raises(RowInvalid, match="table scores has no column 'x'"):
        store.current("scores", ["x"])


def log_of(store: Store, table: str) -> list[str]:
    return sorted(path.name for path in (store.path(table) / "_delta_log").iterdir())


def test_a_write_never_reads_more_than_ten_commits_of_the_log(store: Store) -> None:
    for number in range(25):
        store.append("scores", [score(f"r{number}")], app_id="run", sequence=number)
        names = log_of(store, "scores")
        last = max((name for name in names if ".checkpoint." in name), default="")
        assert sum(name.endswith(".json") and name[:20] > last[:20] for name in names) <= 10
    assert len(set(store.keys("scores"))) == 25


def test_the_log_holds_no_values_of_rows(store: Store) -> None:
    store.append("scores", [score("a", scorer="a value of a row")], app_id="run", sequence=1)
    texts = [path.read_text() for path in (store.path("scores") / "_delta_log").glob("*.json")]
    assert texts and not any("a value of a row" in text for text in texts)


def test_a_table_that_was_made_before_gets_its_log_kept_short_with_the_next_write_only(store: Store) -> None:
    store.path("scores").mkdir(parents=True)
    write_deltalake(str(store.path("scores")), pa.Table.from_pylist([score("a")], schema=TABLES["scores"].arrow))
    versions = []
    for number in range(2):
        store.append("scores", [score(f"r{number}")], app_id="run", sequence=number)
        table = DeltaTable(str(store.path("scores")))
        assert table.metadata().configuration == LOG_PROPERTIES
        versions.append(table.version())
    assert versions == [2, 3]
    assert ids(store.read("scores")) == ["a", "r0", "r1"]


def test_files_above_half_of_the_target_are_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.tables, "SMALL_FILES", 2)
    for number in range(3):
        store.append("scores", [score(f"a{number}")], app_id="run", sequence=number)
    (merged,) = store.files("scores")
    monkeypatch.setattr(pipeline.tables, "TARGET_BYTES", Path(merged).stat().st_size)
    for number in range(3, 12):
        store.append("scores", [score(f"a{number}")], app_id="run", sequence=number)
    assert merged in store.files("scores")
    assert sorted(store.keys("scores")) == sorted(f"a{number}" for number in range(12))


def test_a_checkpoint_is_on_disk_before_the_write_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(pipeline.tables, "sync", lambda path: synced.append(path.name))
    for number in range(12):
        store.append("scores", [score(f"r{number}")], app_id="run", sequence=number)
    written = {name for name in log_of(store, "scores") if name[0] in "0123456789"}
    assert any(".checkpoint." in name for name in written)
    assert written <= set(synced)
