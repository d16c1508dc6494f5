"""The commands that export a version: what they write and say, which mistakes they name, and what a kill leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from assets.resources import open_workshop
from pipeline.exports.tasks import NothingToExport
from tests.unit.hostile_rows import verified_row, version_of


@pytest.fixture
def place(tmp_path: Path) -> Iterator[list[str]]:
    """Options for a data folder with one version, of a row that is carried and one that is not."""
    rows = [verified_row("a"), verified_row("b", chat=[]) | {"messages": None, "instruction": None}]
    version_of(tmp_path / "data" / "snapshots" / "terminal" / "v0001", rows)
    (tmp_path / "touchstone.toml").touch()
    open_workshop.cache_clear()
    yield ["--config", str(tmp_path / "touchstone.toml"), "--data", str(tmp_path / "data")]
    open_workshop.cache_clear()


PROJECTIONS = ["messages", "sharegpt", "megatron", "verl", "skyrl"]


@pytest.mark.parametrize("name", [*PROJECTIONS, "atif"])
def test_the_command_exports_a_version_and_says_what_is_refused(name: str, place: list[str], tmp_path: Path) -> None:
    for number, options in enumerate(([], ["--split", "train", "--json"])):
        out = str(tmp_path / f"out{number}")
        named = [out, "--snapshot", "terminal@v0001"] if name == "atif" else ["terminal@v0001", out]
        done = CliRunner().invoke(touchstone, ["export", name, *named, *options, *place], catch_exceptions=False)
        assert (tmp_path / f"out{number}" / "export.json").exists()
        if options:
            assert json.loads(done.stdout)["written"] == {"train": 1}
        else:
            assert "1 train" in done.stdout and "1 of 2 rows are refused" in done.stdout


@pytest.mark.parametrize("name", PROJECTIONS)
def test_a_snapshot_that_is_not_there_is_said(name: str, place: list[str], tmp_path: Path) -> None:
    with pytest.raises(NothingToExport, match="there is no snapshot"):
        command = ["export", name, "nothing@v0001", str(tmp_path / "out"), *place]
        CliRunner().invoke(touchstone, command, catch_exceptions=False)


@pytest.mark.parametrize(("form", "options"), [("atif", ["--split", "train"]), ("harbor", ["--split", "train"])])
def test_a_split_of_the_working_tables_is_a_mistake_of_usage(
    form: str, options: list[str], place: list[str], tmp_path: Path
) -> None:
    done = CliRunner().invoke(touchstone, ["export", form, str(tmp_path / "out"), *options, *place])
    assert done.exit_code == 2 and "--snapshot" in done.output


_KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.exports.messages import Messages
from pipeline.exports.projection import export_version
from tests.unit.hostile_rows import verified_row, version_of

class Killed(Messages):
    def record(self, essence, split, number):
        if number == 150:
            os.kill(os.getpid(), signal.SIGKILL)
        return essence

folder = Path(sys.argv[1])
version = version_of(folder / "v", [verified_row(str(number)) for number in range(200)])
export_version(version, folder / "out", Killed())
"""


def test_a_killed_export_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("export.json"))
