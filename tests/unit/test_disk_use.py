"""What gc says and removes: nothing that a row or a version needs."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from pathlib import Path
from typing import cast

import docker
import pyarrow as pa
import pytest

from pipeline.archive_cache import ArchiveCache
from pipeline.disk_use import Disk, StageUse, size_of
from pipeline.journal import Entry, Journal
from pipeline.snapshots import versions
from pipeline.tables import Store
from sandbox.building.room import Room
from sandbox.errors import SandboxUnavailable
from sandbox.locks import exclusive
from sandbox.protocol import Backend
from tests.unit.small_versions import put

BIG = 100_000


def no_engine() -> Room:
    raise SandboxUnavailable("no engine answers")


def no_backend() -> Backend:
    raise AssertionError("no state has a verdict: the backend is not needed")


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Sizes of folders are those of a disk."""
    return disk_path


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(Store(tmp_path), no_engine, no_backend)


def freed(disk: Disk, stage: str) -> StageUse:
    """A look says the same before, and nothing is left to free afterwards."""
    (before,) = disk.look([stage])
    (found,) = disk.free([stage])
    assert (before.held, before.freeable, before.freed) == (found.held, found.freeable, None)
    (after,) = disk.look([stage])
    assert after.freeable == 0
    return found


def file(path: Path, *, days_old: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(BIG))
    os.utime(path, (time.time() - days_old * 86400,) * 2)
    return path


def test_a_stage_that_cannot_be_looked_at_says_so_and_the_others_go_on(disk: Disk, tmp_path: Path) -> None:
    file(tmp_path / "contexts" / ("a" * 64))
    uses = {use.stage: use for use in disk.look()}
    assert uses["images"].held is None and uses["images"].note == "cannot be freed: no engine answers"
    assert uses["archives"].freeable >= BIG
    assert list(uses) == ["images", "archives", "sources", "states", "tables", "journal", "snapshots", "other"]


def test_a_stage_that_was_named_and_cannot_be_looked_at_is_an_error(disk: Disk) -> None:
    with pytest.raises(SandboxUnavailable, match="no engine answers"):
        disk.free(["images"])
    (use,) = disk.free(["images"], goes_on=True)
    assert use.note == "cannot be freed: no engine answers"


class Engine:
    """The part of an engine's API that is asked what it holds; it has nothing but a cache of builds."""

    def __init__(self, root: Path) -> None:
        self.api = self
        self._root = root
        self._cache = 5 * BIG

    def df(self) -> dict[str, object]:
        return {"LayersSize": BIG, "BuildCache": [{"Size": self._cache}], "Images": []}

    def info(self) -> dict[str, object]:
        return {"DockerRootDir": str(self._root)}

    def images(self, **_: object) -> list[dict[str, object]]:
        return []

    def prune_builds(self, *, keep_storage: int, all: bool) -> dict[str, int]:
        removed, self._cache = self._cache - keep_storage, keep_storage
        return {"SpaceReclaimed": removed}


@pytest.mark.parametrize(("free_mb", "freed_bytes"), [(1, 0), (1 << 40, 5 * BIG)])
def test_of_images_and_caches_what_is_said_to_be_freed_is_gone(tmp_path: Path, free_mb: int, freed_bytes: int) -> None:
    (tmp_path / "engine.json").write_text(json.dumps({"socket": "/none.sock", "owned": True}))
    room = Room(cast("docker.DockerClient", Engine(tmp_path)), tmp_path)
    disk = Disk(Store(tmp_path), lambda: room, no_backend, free_mb=free_mb)
    (use,) = disk.free(["images"])
    assert (use.held, use.freeable, use.freed) == (6 * BIG, 5 * BIG, freed_bytes)


def test_archives_go_only_when_they_are_named_and_keep_the_day_of_their_download(disk: Disk, tmp_path: Path) -> None:
    data = os.urandom(BIG)
    sha256 = hashlib.sha256(data).hexdigest()
    cache = ArchiveCache(tmp_path / "contexts")
    cache.archive(sha256, lambda: data)
    day = cache.retrieved_at(sha256)
    disk.free()
    assert (tmp_path / "contexts" / sha256).exists()
    assert (freed(disk, "archives").freed or 0) >= BIG
    assert not (tmp_path / "contexts" / sha256).exists()
    assert cache.retrieved_at(sha256) == day
    assert cache.archive(sha256, lambda: data) == data


def test_only_old_trees_that_no_row_names_go(disk: Disk, tmp_path: Path) -> None:
    row = {"item_key": "r", "repository_id": "r", "attempt": 1, "tree_sha256": "named"}
    Store(tmp_path).append("repositories", [row], app_id="test", sequence=1)
    named = file(tmp_path / "sources" / "named.tar", days_old=9)
    recent = file(tmp_path / "sources" / "recent.tar")
    unnamed = file(tmp_path / "sources" / "unnamed.tar", days_old=2)
    assert (freed(disk, "sources").freed or 0) >= BIG
    assert (named.exists(), recent.exists(), unnamed.exists()) == (True, True, False)


def test_no_tree_goes_while_rows_of_a_run_wait_for_the_tables(disk: Disk, tmp_path: Path) -> None:
    unnamed = file(tmp_path / "sources" / "unnamed.tar", days_old=2)
    entry = Entry("fetch", "r", 1, None, "2026-01-01T00:00:00+00:00", 1.0, ("repositories",))
    with Journal(tmp_path) as journal:
        journal.record(entry, {"repositories": pa.table({"tree_sha256": ["unnamed"]})})
    assert freed(disk, "sources").freed == 0
    assert unnamed.exists()


def test_the_journal_gives_back_the_pages_of_rows_that_are_in_the_tables(disk: Disk, tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        table = pa.table({"x": [os.urandom(20 * BIG)]})
        journal.record(Entry("s", "k", 1, None, "2026-01-01T00:00:00+00:00", 1.0, ("x",)), {"x": table})
        (group,) = journal.groups("s")
        journal.flushed("s", group.sequence)
        before = size_of(journal.path)
    assert (freed(disk, "journal").freed or 0) >= 19 * BIG
    assert size_of(tmp_path / "tables" / "journal.sqlite") < before - 19 * BIG
    with Journal(tmp_path) as journal:
        assert [entry.attempt for entry in journal.find("k")] == [1]


def test_unfinished_versions_of_dead_publishers_go_and_those_of_living_ones_stay(disk: Disk, tmp_path: Path) -> None:
    put(tmp_path, "a")
    dead = file(tmp_path / "snapshots" / "terminal" / ".unfinished-v0002" / "data" / "x.parquet").parents[1]
    dead.chmod(0o555)
    with exclusive(tmp_path / "locks" / "snapshot-terminal.lock", "a publisher"):
        assert disk.free(["snapshots"])[0].freed == 0
        assert dead.exists()
    assert (freed(disk, "snapshots").freed or 0) >= BIG
    assert not dead.exists()
    assert [version.version for version in versions(tmp_path, "terminal")] == ["v0001"]


def test_looking_changes_nothing(disk: Disk, tmp_path: Path) -> None:
    put(tmp_path, "a")
    file(tmp_path / "sources" / "unnamed.tar", days_old=2)
    file(tmp_path / "snapshots" / "terminal" / ".unfinished-v0002" / "x")
    with Journal(tmp_path):
        pass

    def there() -> list[tuple[str, int]]:
        files = [path for path in tmp_path.rglob("*") if not path.name.startswith("journal.sqlite-")]  # SQLite's own
        return sorted((str(path), path.lstat().st_size) for path in files)

    before = there()
    disk.look()
    assert there() == before


def test_a_journal_that_is_none_stops_no_other_stage(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "journal.sqlite").write_text("no database, but long enough to be read as one" * 100)
    uses = {use.stage: use for use in disk.look()}
    assert "cannot be freed" in uses["journal"].note
    with pytest.raises(sqlite3.Error):
        Journal(tmp_path)
