"""A pulled version is the published one, whatever the place it comes from says, and whatever stops a pull."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.schemas import canonical_json
from pipeline.snapshots import SnapshotDamaged, load
from pipeline.snapshots.kept_elsewhere import NoSuchVersion
from pipeline.snapshots.manifest import text_sha256
from pipeline.snapshots.pulling import TargetInUse, pull
from pipeline.snapshots.remote import Place
from tests.unit.small_versions import put, put_first_layout, rows

ROOT = Path(__file__).resolve().parents[2]
FILE = "data/train-00000.parquet"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place with one version, whose files may be changed."""
    path = put(tmp_path, "a", "b", rows("c", split="test")).path
    for one in [path, *path.rglob("*")]:
        one.chmod(0o755)
    return Place(str(tmp_path / "snapshots"))


def folder(place: Place) -> Path:
    return Path(place.url) / "terminal" / "v0001"


def sealed(place: Place, change: Callable[[dict[str, object]], None]) -> None:
    """Change the manifest, with its hash, as whoever writes to the place can."""
    fields = json.loads((folder(place) / "manifest.json").read_text())
    del fields["manifest_sha256"]
    change(fields)
    fields["manifest_sha256"] = text_sha256(canonical_json(fields))
    (folder(place) / "manifest.json").write_text(json.dumps(fields))


def nothing_looks_whole(target: Path) -> bool:
    return not target.exists() and not list(target.parent.glob(f".{target.name}*/manifest.json"))


def test_the_rows_and_the_splits_of_the_card_are_those_that_were_published(tmp_path: Path, place: Place) -> None:
    found = pull(place, "terminal", tmp_path / "copy")
    assert (found.name, found.version, found.rows, found.fetched) == ("terminal", "v0001", 3, 5)
    assert load(found.path).equals(load(folder(place)))
    head = yaml.safe_load((found.path / "README.md").read_text().split("---\n")[1])
    splits = {
        entry["split"]: sum(pq.read_metadata(file).num_rows for file in found.path.glob(entry["path"]))
        for entry in head["configs"][0]["data_files"]
    }
    assert splits == {"train": 2, "test": 1}


def test_without_a_target_it_goes_to_a_folder_of_its_name(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert pull(place, "terminal").path == tmp_path / "here" / "terminal-v0001"
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["terminal-v0001"]


def test_what_is_there_already_is_checked_and_not_fetched(tmp_path: Path, place: Place) -> None:
    pull(place, "terminal", tmp_path / "copy")
    assert pull(place, "terminal", tmp_path / "copy").fetched == 0
    (tmp_path / "copy" / FILE).write_bytes(b"x")
    with pytest.raises(TargetInUse, match=f"but {FILE} is missing or was changed"):
        pull(place, "terminal", tmp_path / "copy")


@pytest.mark.parametrize("there", ["a file", "another version", "something else"])
def test_a_target_that_is_something_else_is_left_alone(tmp_path: Path, place: Place, there: str) -> None:
    target = tmp_path / "copy"
    if there == "a file":
        target.write_text("mine")
    elif there == "another version":
        put(tmp_path / "other", "z")
        pull(Place(str(tmp_path / "other" / "snapshots")), "terminal", target)
    else:
        target.mkdir()
        (target / "mine").write_text("mine")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises((TargetInUse, SnapshotDamaged), match="copy"):
        pull(place, "terminal", target)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_an_empty_target_is_filled(tmp_path: Path, place: Place) -> None:
    (tmp_path / "copy").mkdir()
    assert load(pull(place, "terminal", tmp_path / "copy").path).num_rows == 3


def test_a_first_layout_comes_with_its_card(tmp_path: Path) -> None:
    put_first_layout(tmp_path, rows("a"))
    found = pull(Place(str(tmp_path / "snapshots")), "terminal", tmp_path / "copy")
    assert (found.path / "README.md").read_text() == "card"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is missing"),
        (b"", "has 0 bytes, its manifest says"),
        (b"x", "has 1 bytes, its manifest says"),
        (b"x" * 100_000, "has more than .* bytes"),
        ("same size", "was changed: its SHA-256"),
    ],
)
def test_a_file_that_is_not_that_of_the_manifest_is_named(
    tmp_path: Path, place: Place, content: bytes | str | None, says: str
) -> None:
    file = folder(place) / FILE
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content if isinstance(content, bytes) else bytes(file.stat().st_size))
    with pytest.raises(SnapshotDamaged, match=f"{FILE} {says}"):
        pull(place, "terminal", tmp_path / "copy")
    assert nothing_looks_whole(tmp_path / "copy")
    assert not (tmp_path / ".copy.unfinished" / FILE).exists()


def test_when_the_place_was_mended_only_the_damaged_file_is_fetched(tmp_path: Path, place: Place) -> None:
    file = folder(place) / "ids.parquet"
    good = file.read_bytes()
    file.write_bytes(b"x")
    with pytest.raises(SnapshotDamaged):
        pull(place, "terminal", tmp_path / "copy")
    file.write_bytes(good)
    assert 1 <= pull(place, "terminal", tmp_path / "copy").fetched < 5
    assert not (tmp_path / ".copy.unfinished").exists()


@pytest.mark.parametrize(
    "path",
    [
        "../x", "/etc/x", "data/../../x", "data//x", "./x", "", ".", "data/.hidden", "data\\x", "c:x", "a\nb",
        "manifest.json", "MANIFEST.json", "README.MD", "data", "README.md/x", "x" * 300,
    ],
)  # fmt: skip
def test_a_path_that_is_not_surely_inside_is_refused_before_anything_is_written(
    tmp_path: Path, place: Place, path: str
) -> None:
    sealed(place, lambda fields: fields["files"][0].update(path=path))  # type: ignore[index]
    with pytest.raises(SnapshotDamaged, match=r"manifest in .* names"):
        pull(place, "terminal", tmp_path / "copy")
    assert not (tmp_path / "copy").exists() and not (tmp_path / ".copy.unfinished").exists()


@pytest.mark.parametrize("change", [{"sha256": "x"}, {"bytes": -1}])
def test_a_hash_or_size_that_cannot_be_is_refused(tmp_path: Path, place: Place, change: dict[str, object]) -> None:
    sealed(place, lambda fields: fields["files"][0].update(change))  # type: ignore[index]
    with pytest.raises(SnapshotDamaged, match="no usable hash or size"):
        pull(place, "terminal", tmp_path / "copy")


def test_a_size_beyond_the_disk_is_refused_before_anything_is_fetched(tmp_path: Path, place: Place) -> None:
    sealed(place, lambda fields: fields["files"][0].update(bytes=1 << 60))  # type: ignore[index]
    with pytest.raises(Exception, match=r"bytes free, and .* are still to come"):
        pull(place, "terminal", tmp_path / "copy")
    assert nothing_looks_whole(tmp_path / "copy")


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"manifest_sha256": "x"}', "[" * 100_000, "\xff"])
def test_a_manifest_that_is_none_is_named(tmp_path: Path, place: Place, text: str) -> None:
    (folder(place) / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(SnapshotDamaged, match=r"terminal/v0001/manifest.json"):
        pull(place, "terminal", tmp_path / "copy")
    assert nothing_looks_whole(tmp_path / "copy")


def test_a_manifest_that_was_changed_or_is_that_of_another_version_is_named(tmp_path: Path, place: Place) -> None:
    text = (folder(place) / "manifest.json").read_text()
    (folder(place) / "manifest.json").write_text(text.replace('"rows": 3', '"rows": 4'))
    with pytest.raises(SnapshotDamaged, match="was changed after it was published"):
        pull(place, "terminal", tmp_path / "copy")
    (folder(place) / "manifest.json").write_text(text)
    folder(place).rename(folder(place).with_name("v0002"))
    with pytest.raises(SnapshotDamaged, match=r"v0002/manifest.json is that of terminal@v0001"):
        pull(place, "terminal", tmp_path / "copy")


def test_links_that_lead_out_of_the_place_or_the_target_are_not_followed(tmp_path: Path, place: Place) -> None:
    (tmp_path / "secret").write_text("secret")
    good = (folder(place) / FILE).read_bytes()
    (folder(place) / FILE).unlink()
    (folder(place) / FILE).symlink_to(tmp_path / "secret")
    with pytest.raises(Exception, match="is a link that leads out of"):
        pull(place, "terminal", tmp_path / "copy")
    (folder(place) / FILE).unlink()
    (folder(place) / FILE).write_bytes(good)
    unfinished = tmp_path / ".copy.unfinished"
    for path in sorted(unfinished.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "elsewhere").mkdir()
    unfinished.mkdir(exist_ok=True)
    (unfinished / "data").symlink_to(tmp_path / "elsewhere")
    pull(place, "terminal", tmp_path / "copy")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_tag_that_names_no_version_and_a_name_that_is_a_path_are_refused(tmp_path: Path, place: Place) -> None:
    (folder(place).parent / "tags").mkdir()
    (folder(place).parent / "tags" / "bad").write_text("../../x")
    with pytest.raises(SnapshotDamaged, match="tags/bad names no version"):
        pull(place, "terminal@bad", tmp_path / "copy")
    for reference in ("../terminal", "", "terminal/../x", "terminal@../v0001"):
        with pytest.raises((NoSuchVersion, SnapshotDamaged)):
            pull(place, reference, tmp_path / "copy")


_KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.snapshots.pulling import pull
from pipeline.snapshots.remote import Place
import pipeline.snapshots.pulling
pipeline.snapshots.pulling._AT_ONCE = 1  # the child has one thread, so that each kill comes at another point
place, runs = Place(sys.argv[1]), Path(sys.argv[2])
for number in range(0, 300, 3):
    child = os.fork()
    if not child:
        left = number
        def hook(event, arguments):
            global left
            if event in {"os.rename", "os.mkdir", "os.remove", "open"} and str(runs) in str(arguments):
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
        sys.addaudithook(hook)
        pull(place, "terminal", runs / f"{number:03d}")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def test_a_kill_at_any_step_leaves_the_whole_version_or_none_and_the_next_pull_goes_on(
    tmp_path: Path, place: Place
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    subprocess.run([sys.executable, "-c", _KILLED, place.url, str(runs)], cwd=ROOT, check=True, timeout=200)
    fetched = []
    for number in range(0, 300, 3):
        target = runs / f"{number:03d}"
        whole = target.exists()
        found = pull(place, "terminal", target)
        assert found.fetched == 0 if whole else found.fetched <= 5
        fetched.append(found.fetched)
        assert sorted(path.name for path in target.iterdir()) == [
            "README.md", "data", "excluded.parquet", "ids.parquet", "manifest.json"
        ]  # fmt: skip
        assert not list(runs.glob(f".{target.name}*"))
        if whole:
            break
    assert fetched == sorted(fetched, reverse=True) and fetched[0] == 5 and 0 in fetched[:-1]
