"""Retention: what goes, what stays and why, and what a kill leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.snapshots import SnapshotDamaged, check, versions
from pipeline.snapshots.retention import retain
from pipeline.snapshots.tags import tag
from tests.unit.small_versions import put

ROOT = Path(__file__).resolve().parents[2]


def kept(root: Path, keep: int, *, dry_run: bool = False) -> dict[str, str | None]:
    return {fate.version: fate.kept_as for fate in retain(root, "terminal", keep, dry_run=dry_run)}


def there(root: Path, name: str = "terminal") -> list[str]:
    return [version.version for version in versions(root, name)]


def test_untagged_versions_go_but_for_the_newest(tmp_path: Path) -> None:
    for key in "abcd":
        put(tmp_path, key)
    tag(tmp_path, "terminal", "v0002", "good")
    assert kept(tmp_path, 1) == {"v0001": None, "v0002": "tagged good", "v0003": None, "v0004": "one of the newest 1"}
    assert there(tmp_path) == ["v0002", "v0004"]
    assert sorted(path.name for path in (tmp_path / "snapshots" / "terminal").iterdir()) == [
        "removed",
        "tags",
        "v0002",
        "v0004",
    ]


def test_the_manifest_of_a_removed_version_stays_and_its_number_is_not_given_again(tmp_path: Path) -> None:
    put(tmp_path, "a"), put(tmp_path, "b")
    before = (tmp_path / "snapshots" / "terminal" / "v0001" / "manifest.json").read_text()
    retain(tmp_path, "terminal", 1)
    assert (tmp_path / "snapshots" / "terminal" / "removed" / "v0001.json").read_text() == before
    assert put(tmp_path, "c").version == "v0003"


def test_parents_of_what_stays_stay_through_all_generations_and_across_names(tmp_path: Path) -> None:
    put(tmp_path, "a")
    put(tmp_path, "b", parents=["terminal/v0001"])
    put(tmp_path, "c")
    put(tmp_path, "d", parents=["terminal@v0002", "trajectories", "terminal/v0009"])
    put(tmp_path, "e")
    put(tmp_path, "f", name="derived", parents=["terminal/v0003"])
    put(tmp_path, "g")
    tag(tmp_path, "terminal", "v0004", "good")
    assert kept(tmp_path, 1) == {
        "v0001": "parent of terminal@v0002",
        "v0002": "parent of terminal@v0004",
        "v0003": "parent of derived@v0001",
        "v0004": "tagged good",
        "v0005": None,
        "v0006": "one of the newest 1",
    }
    assert there(tmp_path, "derived") == ["v0001"]


def test_a_dry_run_says_the_same_and_removes_nothing(tmp_path: Path) -> None:
    put(tmp_path, "a"), put(tmp_path, "b")
    fates = retain(tmp_path, "terminal", 1, dry_run=True)
    assert [(fate.version, fate.kept_as is None, fate.bytes > 0) for fate in fates] == [
        ("v0001", True, True),
        ("v0002", False, True),
    ]
    assert there(tmp_path) == ["v0001", "v0002"]
    assert fates == retain(tmp_path, "terminal", 1)
    assert there(tmp_path) == ["v0002"]


def test_nothing_goes_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    put(tmp_path, "a"), put(tmp_path, "b")
    manifest = put(tmp_path, "c", name="derived").path / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_text("{}")
    with pytest.raises(SnapshotDamaged, match="derived"):
        retain(tmp_path, "terminal", 1)
    assert there(tmp_path) == ["v0001", "v0002"]


def test_the_newest_version_always_stays(tmp_path: Path) -> None:
    put(tmp_path, "a")
    with pytest.raises(ValueError, match="at least one"):
        retain(tmp_path, "terminal", 0)


_KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from pipeline.snapshots.retention import retain

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.copyfile", "open"}
source, runs = Path(sys.argv[1]), Path(sys.argv[2])
for number in range(100):
    root = runs / f"{number:03d}"
    shutil.copytree(source, root)
    child = os.fork()
    if not child:
        left = number
        def hook(event, arguments):
            global left
            if event in CHANGES and str(root) in str(arguments):
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
        sys.addaudithook(hook)
        retain(root, "terminal", 1)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def test_a_kill_before_any_change_of_a_file_leaves_a_whole_version_or_its_tombstone(tmp_path: Path) -> None:
    put(tmp_path / "source", "a"), put(tmp_path / "source", "b")
    runs = tmp_path / "runs"
    subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path / "source"), str(runs)], cwd=ROOT, check=True, timeout=100
    )
    roots = sorted(runs.iterdir())
    outcomes = []
    for root in roots:
        tombstone = root / "snapshots" / "terminal" / "removed" / "v0001.json"
        present = there(root)
        outcomes.append(len(present))
        assert [check(version.path) for version in versions(root, "terminal")] == [[]] * len(present)
        assert present == ["v0001", "v0002"] or json.loads(tombstone.read_text())["version"] == "v0001"
        retain(root, "terminal", 1)
        assert put(root, "c").version == "v0003"
        assert there(root) == ["v0002", "v0003"]
        assert [path.name for path in root.rglob(".*")] == []
        shutil.rmtree(root, ignore_errors=True)
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {1, 2}
    assert len(roots) > 15
