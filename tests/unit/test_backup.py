"""Back-ups of a data folder: taken while work goes on, checked, and brought only where nothing stands."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from pipeline.backup import BackupDamaged, back_up, read_backup, restore
from pipeline.batch import Failure, Item, Outcome, run_stage
from pipeline.schemas import Row, to_rows
from pipeline.snapshots import publish, versions
from pipeline.tables import Store


def failed_rows(value: str, failure: Failure) -> dict[str, list[Row]]:
    return {"scores": [{"repository_id": value}]}


def work(value: str) -> Outcome:
    return Outcome({"scores": [{"repository_id": value, "score": 0.5}]})


def settle(store: Store, keys: list[str]) -> None:
    run_stage("score", [Item(key, key) for key in keys], work, store=store, failed_rows=failed_rows, workers=2)


def test_what_was_backed_up_while_a_stage_ran_goes_on_without_a_lost_or_doubled_row(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    settle(store, ["item-0"])
    enough = threading.Event()
    keys = ["item-0"]

    def stages() -> None:  # each call ends with a flush
        while not enough.is_set():
            keys.extend([f"item-{len(keys)}", f"item-{len(keys) + 1}"])
            settle(store, keys)

    running = threading.Thread(target=stages)
    running.start()
    for number in range(4):
        back_up(store.root, tmp_path / f"backup-{number}", None)
    enough.set()
    running.join()

    held = set()
    for number in range(4):
        copy = Store(tmp_path / f"restored-{number}")
        restore(tmp_path / f"backup-{number}", copy.root, None)
        held.add(copy.read("scores").num_rows)
        settle(copy, keys)
        rows = Counter((str(row["item_key"]), row["attempt"]) for row in to_rows(copy.read("scores")))
        assert rows == Counter((key, 1) for key in keys)
    assert len(held) > 1, "no back-up was taken while rows were written"


def a_back_up(tmp_path: Path) -> Path:
    store = Store(tmp_path / "data")
    settle(store, ["a", "b"])
    rows = pa.table({"trajectory_id": ["1", "2"], "text": ["x", "y"]})
    publish(
        store.root,
        "words",
        rows,
        schema_version=1,
        parents=[],
        code_commit=None,
        run_id=None,
        describe=lambda draft: {"README.md": ""},
        summary={},
    )
    for version in ("v0001", ".v0002-unfinished"):
        (store.root / "models/sft" / version / "adapter").mkdir(parents=True)
        (store.root / "models/sft" / version / "adapter/adapter_model.safetensors").write_text(version)
    (store.root / "docker").mkdir()
    (store.root / "docker" / "layer").write_text("can be had again")
    back_up(store.root, tmp_path / "backup", None)
    return tmp_path / "backup"


def test_tables_and_versions_come_back_and_what_can_be_had_again_stays_away(tmp_path: Path) -> None:
    made = restore(a_back_up(tmp_path), tmp_path / "new", None)
    assert made.rows["scores"] == Store(tmp_path / "new").read("scores").num_rows == 2
    assert made.versions == ("words/v0001",)
    assert [version.version for version in versions(tmp_path / "new", "words")] == ["v0001"]
    (weights,) = (tmp_path / "new/models").rglob("*.safetensors")
    assert weights.read_text() == "v0001"
    assert not list((tmp_path / "backup").rglob("layer"))


def test_a_back_up_goes_into_an_empty_folder_only(tmp_path: Path) -> None:
    made = a_back_up(tmp_path)
    before = sorted(tmp_path.joinpath("data").rglob("*"))
    with pytest.raises(BackupDamaged, match="is there already; a back-up goes into an empty data folder only"):
        restore(made, tmp_path / "data", None)
    assert sorted(tmp_path.joinpath("data").rglob("*")) == before
    with pytest.raises(BackupDamaged, match="is there already; name a new folder"):
        back_up(tmp_path / "data", made, None)


@pytest.mark.parametrize("harm", ["changed", "gone", "foreign"])
def test_a_damaged_back_up_is_refused_before_anything_is_written(tmp_path: Path, harm: str) -> None:
    made = a_back_up(tmp_path)
    victim = next((made / "data" / "tables" / "scores").glob("*.parquet"))
    if harm == "changed":
        content = bytearray(victim.read_bytes())
        content[10] ^= 1
        victim.write_bytes(content)
    elif harm == "gone":
        victim.unlink()
    else:
        (made / "backup.json").write_text("{}")
    with pytest.raises(BackupDamaged):
        read_backup(made)
    with pytest.raises(BackupDamaged):
        restore(made, tmp_path / "new", None)
    assert not (tmp_path / "new").exists()


def test_a_database_that_cannot_be_filled_leaves_the_folder_empty(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    settle(store, ["a"])

    def dump(folder: Path) -> dict[str, int]:
        (folder / "dump").write_text("rows")
        return {"runs": 3}

    back_up(store.root, tmp_path / "backup", dump)
    with pytest.raises(BackupDamaged, match=r"from PostgreSQL in .*, and from files here"):
        restore(tmp_path / "backup", tmp_path / "new", None)
    with pytest.raises(BackupDamaged, match="other numbers of rows"):
        restore(tmp_path / "backup", tmp_path / "new", lambda folder: {"runs": 2})
    assert list((tmp_path / "new").iterdir()) == []
    assert restore(tmp_path / "backup", tmp_path / "new", lambda folder: {"runs": 3}).server == {"runs": 3}


def test_the_commands_say_what_they_did_and_why_not(tmp_path: Path, options: list[str]) -> None:
    settle(Store(tmp_path / "data"), ["a", "b"])
    target = str(tmp_path / "backup")
    said = CliRunner().invoke(touchstone, ["backup", target, *options])
    assert said.exit_code == 0 and "scores 2" in said.output
    refused = CliRunner().invoke(touchstone, ["restore", target, *options])
    assert isinstance(refused.exception, BackupDamaged)
