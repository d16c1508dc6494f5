"""The commands about versions, as a user calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assets.cli import touchstone
from assets.gc import _STAGES
from assets.resources import open_workshop
from pipeline.disk_use import Disk
from pipeline.errors import PipelineError
from pipeline.snapshots import load, locate
from pipeline.tables import Store
from tests.unit.small_versions import put, rows


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder that commands find."""
    (tmp_path / "touchstone.toml").write_text("")
    monkeypatch.setenv("TOUCHSTONE_CONFIG", str(tmp_path / "touchstone.toml"))
    monkeypatch.setenv("TOUCHSTONE_DATA", str(tmp_path / "data"))
    open_workshop.cache_clear()
    yield tmp_path / "data"
    open_workshop.cache_clear()


def said(*arguments: object) -> str:
    result: Result = CliRunner().invoke(touchstone, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(touchstone, [str(one) for one in arguments])
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit | PipelineError), result.exception
    return result.output + str(result.exception)


def test_versions_are_listed_with_their_tags_and_splits(data: Path) -> None:
    put(data, "a", rows("b", split="test"))
    put(data, "c", name="derived", parents=["terminal/v0001"])
    assert said("tag", "terminal@v0001", "good") == "good names terminal@v0001\n"
    found = json.loads(said("snapshots", "--json"))
    assert [(one["name"], one["rows"], one["splits"], one["tags"], one["parents"]) for one in found] == [
        ("derived", 1, {"train": 1}, ["latest"], ["terminal/v0001"]),
        ("terminal", 2, {"test": 1, "train": 1}, ["latest", "good"], []),
    ]
    assert "terminal@v0001" in said("snapshots", "terminal")
    assert "no version of 'other'" in refused("snapshots", "other")


def test_a_tag_is_moved_and_removed_by_the_version_that_it_names(data: Path) -> None:
    put(data, "a"), put(data, "b")
    said("tag", "terminal@v0001", "good")
    assert said("tag", "terminal", "good") == "good names terminal@v0002, no longer v0001\n"
    assert "good of 'terminal' names v0002, not v0001" in refused("tag", "terminal@v0001", "good", "--remove")
    assert said("tag", "terminal@good", "good", "--remove") == "good no longer names terminal@v0002\n"
    assert "latest is always the newest" in refused("tag", "terminal", "latest")
    assert "there is no snapshot" in refused("tag", "terminal@v0009", "good")


def test_retention_says_why_each_version_stays(data: Path) -> None:
    put(data, "a"), put(data, "b")
    said("tag", "terminal@v0001", "good")
    put(data, "c")
    assert said("retain", "terminal", "--keep", 1, "--dry-run").startswith(
        "terminal@v0001: stays, tagged good\nterminal@v0002: goes\nterminal@v0003: stays, one of the newest 1\n"
        "1 of 3 versions would be removed, "
    )
    assert "1 of 3 versions removed" in said("retain", "terminal", "--keep", 1)
    assert [one["version"] for one in json.loads(said("snapshots", "--json"))] == ["v0001", "v0003"]


def test_a_diff_names_rows_and_reasons(data: Path) -> None:
    put(data, "stays", "went", rows("moves"))
    put(data, "stays", rows("moves", split="test"), "came", excluded=[("went", "licence", "none \x1b[2J found", "")])
    output = said("diff", "terminal@v0001", "terminal@v0002")
    assert "removed went (train): licence, none \\x1b[2J found" in output
    assert "moved moves (train -> test): moved" in output
    assert "added came (train): new" in output
    found = json.loads(said("diff", "terminal@v0001", "terminal@v0002", "--json", "--limit", 0))
    assert (found["added"], found["removed"], found["moved"], found["added_rows"]) == (1, 1, 1, [])


def test_what_is_pushed_is_pulled_with_the_lines_that_read_it(data: Path, tmp_path: Path) -> None:
    put(data, "a", "b")
    assert "terminal@v0001 is now in" in said("push", "terminal", tmp_path / "share")
    assert "terminal@v0001 was already in" in said("push", "terminal@latest", tmp_path / "share")
    output = said("pull", "terminal@v0001", "--from", tmp_path / "share", "--to", tmp_path / "copy")
    assert output.startswith(f"terminal@v0001: 2 rows in {tmp_path / 'copy'} (4 files, ")
    assert f'datasets.load_dataset("{tmp_path / "copy"}")' in output
    assert load(tmp_path / "copy").equals(load(locate(data, "terminal")))
    again = json.loads(said("pull", "terminal", "--to", tmp_path / "copy", "--json"))
    assert (again["fetched"], again["path"]) == (0, str(tmp_path / "copy"))


def test_the_lines_that_read_a_version_work(data: Path, tmp_path: Path) -> None:
    import duckdb
    import pyarrow.dataset

    put(data, "a", rows("b", split="test"))
    lines = said("pull", "terminal", "--to", tmp_path / "copy").splitlines()[1:]
    (duck,) = [line.partition(":")[2].strip() for line in lines if line.startswith("duckdb")]
    (arrow,) = [line.partition(":")[2].strip() for line in lines if line.startswith("pyarrow")]
    found = eval(duck.replace("language", "split"), {"duckdb": duckdb}).fetchall()
    assert sorted(found) == [("test", 1), ("train", 1)]
    assert sum(batch.num_rows for batch in eval(arrow, {"pyarrow": pyarrow})) == 2


def test_gc_shows_what_each_stage_holds(data: Path) -> None:
    put(data, "a")
    (data / "contexts").mkdir()
    (data / "contexts" / ("a" * 64)).write_bytes(b"x" * 100_000)
    stages = ["--stage", "archives", "--stage", "snapshots", "--stage", "journal"]
    found = json.loads(said("gc", "--dry-run", "--json", *stages))
    assert [(use["stage"], use["freeable"] > 0, use["freed"]) for use in found["stages"]] == [
        ("archives", True, None),
        ("journal", False, None),
        ("snapshots", False, None),
    ]
    assert "downloaded again" in said("gc", "--dry-run", "--stage", "archives")
    assert json.loads(said("gc", "--json", "--stage", "archives"))["stages"][0]["freed"] >= 100_000
    assert list((data / "contexts").iterdir()) == []


def test_the_stages_of_the_command_are_those_that_there_are(tmp_path: Path) -> None:
    disk = Disk(Store(tmp_path), room=lambda: pytest.fail(), backend=lambda: pytest.fail())
    assert tuple(stage.name for stage in disk.stages) == _STAGES
