"""Places on this machine: what is written there appears whole, and who pushes second learns of the first."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.snapshots import check
from pipeline.snapshots.kept_elsewhere import NoSuchVersion, resolved
from pipeline.snapshots.pushing import PublishConfig, PushRefused, push_version
from pipeline.snapshots.remote import Place
from pipeline.snapshots.tags import tag
from tests.unit.small_versions import put, put_first_layout, rows


def test_a_version_in_a_folder_is_the_one_that_was_pushed(tmp_path: Path) -> None:
    put(tmp_path, "a", rows("b", split="test"))
    tag(tmp_path, "terminal", "v0001", "good")
    share = tmp_path / "share"
    pushed = push_version(tmp_path, "terminal@good", f"file://{share}")
    assert (pushed.url, pushed.created, pushed.sent) == (f"file://{share}/terminal/v0001", True, 5)
    assert check(share / "terminal" / "v0001") == []
    assert (share / "terminal" / "tags" / "good").read_text() == "v0001\n"
    assert not list(share.rglob(".*"))
    assert push_version(tmp_path, "terminal", str(share)).created is False


def test_a_file_is_created_by_one_of_many(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    made: list[bool] = []
    threads = [threading.Thread(target=lambda n=n: made.append(place.create("a/b", b"%d" % n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 7 + [True]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_another_version_under_the_same_number_is_refused_and_stays(tmp_path: Path) -> None:
    put(tmp_path / "one", "a"), put(tmp_path / "two", "b", "c")
    share = tmp_path / "share"
    push_version(tmp_path / "one", "terminal", str(share))
    with pytest.raises(PushRefused, match="a version is never replaced"):
        push_version(tmp_path / "two", "terminal", str(share))
    assert resolved(Place(str(share)), "terminal").manifest.rows == 1


def test_a_push_goes_on_where_another_stopped(tmp_path: Path) -> None:
    put(tmp_path, "a", rows("b", split="test"))
    share = tmp_path / "share"
    push_version(tmp_path, "terminal", str(share))
    (share / "terminal" / "v0001" / "manifest.json").unlink()
    (share / "terminal" / "v0001" / "data" / "train-00000.parquet").write_bytes(b"half")
    with pytest.raises(NoSuchVersion, match="'terminal' has v0001 there"):
        resolved(Place(str(share)), "terminal")
    pushed = push_version(tmp_path, "terminal", str(share))
    assert (pushed.created, pushed.sent) == (True, 1)
    assert check(share / "terminal" / "v0001") == []


def test_a_claim_of_a_push_that_was_given_up_is_named_until_it_is_removed(tmp_path: Path) -> None:
    put(tmp_path, "a")
    claim = tmp_path / "share" / "terminal" / "claims" / "v0001" / f"{'0' * 64}.{'1' * 32}"
    claim.parent.mkdir(parents=True)
    claim.write_text("claimed")
    with pytest.raises(PushRefused, match=f"with the manifest {'0' * 64}; .*remove .*/claims/v0001/{'0' * 64}"):
        push_version(tmp_path, "terminal", str(tmp_path / "share"))
    assert [path.name for path in claim.parent.iterdir()] == [claim.name]
    claim.unlink()
    assert push_version(tmp_path, "terminal", str(tmp_path / "share")).created
    assert list(claim.parent.iterdir()) == []


def test_a_version_of_the_first_layout_can_be_pushed(tmp_path: Path) -> None:
    put_first_layout(tmp_path, rows("a"))
    push_version(tmp_path, "terminal", str(tmp_path / "share"))
    assert check(tmp_path / "share" / "terminal" / "v0001") == []


def test_what_is_not_there_is_not_pushed(tmp_path: Path) -> None:
    with pytest.raises(NoSuchVersion, match="'terminal' has no version"):
        push_version(tmp_path, "terminal", str(tmp_path / "share"))
    assert not (tmp_path / "share").exists()


def test_a_place_that_cannot_be_written_to_is_a_fault_of_the_place(tmp_path: Path) -> None:
    put(tmp_path, "a")
    (tmp_path / "share").write_text("a file")
    with pytest.raises(InfrastructureFailure, match="share"):
        push_version(tmp_path, "terminal", str(tmp_path / "share"))


@pytest.mark.parametrize(
    "url", ["", "s3://user:word@bucket/x", "https://host/x?signature=1", "odd://x", "simplecache::s3://x/y"]
)
def test_an_address_that_cannot_be_used_is_a_mistake_of_the_configuration(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Place(url)
    assert "word" not in str(caught.value) and "signature" not in str(caught.value)


@pytest.mark.parametrize("url", ["folder", "s3://user:word@bucket/x"])
def test_the_configuration_takes_whole_addresses_without_keys(url: str) -> None:
    with pytest.raises(ValueError, match=r"relative|environment"):
        PublishConfig(url=url)
    assert PublishConfig(url="s3://bucket/x").url == "s3://bucket/x"
