"""Tags: set at once or not at all, never what would mislead."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.snapshots import locate
from pipeline.snapshots.reading import tags_of
from pipeline.snapshots.tags import TagRefused, remove_tag, tag
from tests.unit.small_versions import put

ROOT = Path(__file__).resolve().parents[2]


def test_a_tag_names_a_version_until_it_is_moved_or_removed(tmp_path: Path) -> None:
    first, second = put(tmp_path, "a"), put(tmp_path, "b")
    assert tag(tmp_path, "terminal", "v0001", "good") is None
    assert locate(tmp_path, "terminal@good") == first.path
    assert tag(tmp_path, "terminal", "v0002", "good") == "v0001"
    assert locate(tmp_path, "terminal@good") == second.path
    assert remove_tag(tmp_path, "terminal", "good") == "v0002"
    assert tags_of(tmp_path, "terminal") == {}
    with pytest.raises(TagRefused, match="has no tag 'good'; it has none"):
        remove_tag(tmp_path, "terminal", "good")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("latest", "always the newest"),
        ("v0001", "looks like a version"),
        ("2026-01-02", "looks like a version or a day"),
        ("nightly-2026-02-30", "followed by a day"),
        ("nightly-x", "followed by a day"),
        ("../x", "lower-case"),
        ("", "lower-case"),
        (".x", "lower-case"),
        ("a\n", "lower-case"),
    ],
)
def test_what_means_something_else_is_no_tag(tmp_path: Path, name: str, says: str) -> None:
    put(tmp_path, "a")
    with pytest.raises(TagRefused, match=says):
        tag(tmp_path, "terminal", "v0001", name)
    assert tags_of(tmp_path, "terminal") == {}


@pytest.mark.parametrize(("name", "version"), [("terminal", "v0002"), ("other", "v0001"), ("../x", "v0001")])
def test_only_a_version_that_is_there_is_tagged(tmp_path: Path, name: str, version: str) -> None:
    put(tmp_path, "a")
    with pytest.raises(TagRefused):
        tag(tmp_path, name, version, "good")
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["terminal"]


def test_a_nightly_tag_of_a_past_day_may_be_set_late_and_is_never_moved(tmp_path: Path) -> None:
    put(tmp_path, "a"), put(tmp_path, "b")
    tag(tmp_path, "terminal", "v0001", "nightly-2026-01-02")
    assert tag(tmp_path, "terminal", "v0001", "nightly-2026-01-02") == "v0001"
    with pytest.raises(TagRefused, match="names v0001: a nightly tag of a past day is not moved"):
        tag(tmp_path, "terminal", "v0002", "nightly-2026-01-02")
    today = f"nightly-{datetime.now(UTC).date()}"
    tag(tmp_path, "terminal", "v0001", today)
    assert tag(tmp_path, "terminal", "v0002", today) == "v0001"


def test_processes_that_move_a_tag_at_once_leave_one_of_their_versions(tmp_path: Path) -> None:
    put(tmp_path, "a"), put(tmp_path, "b")
    script = (
        "import sys; from pathlib import Path; from pipeline.snapshots.tags import tag\n"
        "for _ in range(30): tag(Path(sys.argv[1]), 'terminal', sys.argv[2], 'good')"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), version], cwd=ROOT)
        for version in ("v0001", "v0002")
    ]
    while any(child.poll() is None for child in children):
        assert set(tags_of(tmp_path, "terminal").items()) <= {("good", "v0001"), ("good", "v0002")}
    assert [child.returncode for child in children] == [0, 0]
    assert list(tags_of(tmp_path, "terminal")) == ["good"]
