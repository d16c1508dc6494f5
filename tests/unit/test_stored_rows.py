"""Rows of a table one at a time: the same ones, in the same order, as the table itself gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from pipeline.schemas import RowInvalid, to_rows
from pipeline.stored_rows import GROUPS_HELD, StoredRows
from pipeline.tables import EMPTY_ATTEMPT, Store, TableDamaged


def attempt(key: str, number: int = 1, **columns: object) -> dict[str, object]:
    return {"trajectory_id": key, "item_key": key, "attempt": number, "reason": "", **columns}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """With more row groups than are held, in two files, and attempts that were superseded."""
    store = Store(tmp_path)
    first = [attempt(f"t{n:03d}", steps=[{"index": 0, "observation": f"o{n}"}]) for n in range(100 * GROUPS_HELD + 150)]
    store.append("trajectories", first, app_id="one", sequence=1)
    again = [attempt("t000", 2, agent="later"), attempt("t001", 2, reason=EMPTY_ATTEMPT, trajectory_id=None)]
    store.append("trajectories", again, app_id="one", sequence=2)
    return store


def test_they_are_the_current_rows(store: Store) -> None:
    stored = StoredRows(store, "trajectories", ["trajectory_id"])
    rows = list(stored.rows())
    assert len(stored) == len(rows) == 100 * GROUPS_HELD + 149
    expected = to_rows(store.current("trajectories"))
    assert sorted(rows, key=lambda row: str(row["item_key"])) == sorted(expected, key=lambda row: str(row["item_key"]))
    assert [row["trajectory_id"] for row in rows] == stored.light.column("trajectory_id").to_pylist()


def test_any_row_may_be_asked_for_at_any_time_and_by_threads(store: Store) -> None:
    stored = StoredRows(store, "trajectories", ["trajectory_id"])
    ids = stored.light.column("trajectory_id").to_pylist()
    numbers = [*reversed(range(len(stored))), *range(0, len(stored), 7)]
    with ThreadPoolExecutor(8) as threads:
        assert [row["trajectory_id"] for row in threads.map(stored.row, numbers)] == [ids[n] for n in numbers]


def test_what_is_written_and_merged_meanwhile_changes_nothing(store: Store) -> None:
    stored = StoredRows(store, "trajectories", ["trajectory_id"])
    for sequence in range(3, 80):  # more small files than are left unmerged
        store.append("trajectories", [attempt("t002", sequence)], app_id="one", sequence=sequence)
    assert len(list(stored.rows())) == 100 * GROUPS_HELD + 149


def test_columns_that_an_older_version_lacks_are_null(tmp_path: Path) -> None:
    store = Store(tmp_path)
    full = store.read("trajectories").schema
    rows = store.read("trajectories").select([name for name in full.names if name != "interface"])
    old = rows.from_pylist([attempt("t")], schema=rows.schema)
    write_deltalake(str(store.path("trajectories")), old)
    stored = StoredRows(store, "trajectories", ["interface", "item_key"])
    assert stored.light.to_pylist() == [{"interface": None, "item_key": "t"}]
    assert stored.row(0)["interface"] is None


def test_an_empty_table_has_none_and_an_unknown_column_is_named(tmp_path: Path) -> None:
    assert len(StoredRows(Store(tmp_path), "trajectories", ["agent"])) == 0
    with pytest.raises(RowInvalid, match="no column 'x'"):
        StoredRows(Store(tmp_path), "trajectories", ["x"])


def test_a_file_that_is_gone_names_the_table(store: Store) -> None:
    stored = StoredRows(store, "trajectories", ["agent"])
    for file in store.files("trajectories"):
        assert pq.ParquetFile(file).metadata.num_rows
        Path(file).unlink()
    with pytest.raises(TableDamaged, match="table trajectories"):
        stored.row(0)
    with pytest.raises(TableDamaged, match="table trajectories"):
        StoredRows(store, "trajectories", ["agent"])
