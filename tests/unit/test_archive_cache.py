"""Archives that were downloaded once are there for ever, undamaged, with the time of their download."""

from __future__ import annotations

import hashlib
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.archive_cache import ArchiveCache
from pipeline.errors import InfrastructureFailure

DATA = b"an archive"
SHA256 = hashlib.sha256(DATA).hexdigest()


def refuse() -> bytes:
    raise AssertionError("it was downloaded again")


def test_what_was_downloaded_is_kept_with_its_time(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    assert ArchiveCache(tmp_path).archive(SHA256, lambda: DATA) == DATA
    retrieved_at = ArchiveCache(tmp_path).retrieved_at(SHA256)
    assert retrieved_at is not None and before <= retrieved_at <= datetime.now(UTC)
    assert ArchiveCache(tmp_path).archive(SHA256, refuse) == DATA
    assert ArchiveCache(tmp_path).retrieved_at(SHA256) == retrieved_at


def test_what_is_not_kept_has_no_time(tmp_path: Path) -> None:
    assert ArchiveCache(tmp_path).retrieved_at(SHA256) is None


def test_a_damaged_archive_is_fetched_anew(tmp_path: Path) -> None:
    cache = ArchiveCache(tmp_path)
    cache.archive(SHA256, lambda: DATA)
    (tmp_path / SHA256).write_bytes(DATA[:-1])
    assert cache.archive(SHA256, lambda: DATA) == DATA
    assert cache.archive(SHA256, refuse) == DATA


def test_a_download_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> bytes:
        raise InfrastructureFailure("no network")

    with pytest.raises(InfrastructureFailure, match="no network"):
        ArchiveCache(tmp_path).archive(SHA256, fail)
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_of_several_that_want_one_archive_at_once_only_one_downloads(tmp_path: Path) -> None:
    downloads, together = list[int](), threading.Barrier(4)

    def download() -> bytes:
        downloads.append(1)
        return DATA

    def want() -> None:
        together.wait()
        assert ArchiveCache(tmp_path).archive(SHA256, download) == DATA

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1


def test_a_folder_that_cannot_be_written_to_is_infrastructure(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(InfrastructureFailure, match="could not be kept"):
        ArchiveCache(tmp_path / "data").archive(SHA256, lambda: DATA)
