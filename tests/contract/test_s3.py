"""Versions in S3-compatible storage, against a local server: whole for readers, whoever pushes, fails or competes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.snapshots import SnapshotDamaged, load, locate, manifest_of
from pipeline.snapshots.kept_elsewhere import NoSuchVersion, resolved
from pipeline.snapshots.pulling import pull
from pipeline.snapshots.pushing import Pushed, PushRefused, push_version
from pipeline.snapshots.remote import Place
from pipeline.snapshots.tags import tag
from tests.bench.s3_server import BUCKETS, running
from tests.unit.small_versions import put, rows

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
PUSH = """
import sys
from pathlib import Path
from pipeline.snapshots.pushing import PushRefused, push_version
try:
    print("created" if push_version(Path(sys.argv[1]), "terminal", sys.argv[2]).created else "there")
except PushRefused as error:
    print("refused", error)
"""
KILLED = """
import os, signal, sys
opened = []
def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith("train-00000.parquet"):
        opened.append(arguments)
        if len(opened) == 2:  # once to be hashed, once to be sent
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
"""
PULL = """
from pipeline.snapshots.pulling import pull
from pipeline.snapshots.remote import Place
print(pull(Place(sys.argv[2]), "terminal", Path(sys.argv[3])).fetched)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Mapping[str, str]]:
    with running() as found:
        yield found


@pytest.fixture
def url(server: Mapping[str, str]) -> str:
    """A folder of the bucket `plain` that nobody else uses."""
    os.environ.update(server)
    return f"s3://plain/{uuid.uuid4().hex}"


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_what_was_pushed_comes_back_equal(tmp_path: Path, url: str) -> None:
    version = put(tmp_path, "a", rows("b", split="test"))
    tag(tmp_path, "terminal", "v0001", "good")
    pushed = push_version(tmp_path, "terminal", url)
    assert (pushed.created, pushed.sent, pushed.tags) == (True, 5, ("good",))
    for reference in ("terminal", "terminal@v0001", "terminal@latest", "terminal@good", "terminal@9999-01-01"):
        found = pull(Place(url), reference, tmp_path / "copy")
        assert (found.path, found.rows) == (tmp_path / "copy", 2)
    assert load(tmp_path / "copy").equals(load(version.path))
    assert manifest_of(tmp_path / "copy") == manifest_of(version.path)


def test_a_version_that_is_there_is_not_sent_again(tmp_path: Path, url: str) -> None:
    put(tmp_path, "a")
    assert push_version(tmp_path, "terminal", url).created
    again = push_version(tmp_path, "terminal", url)
    assert (again.created, again.sent) == (False, 0)


def test_another_version_under_the_same_number_is_refused_and_both_are_named(tmp_path: Path, url: str) -> None:
    put(tmp_path / "one", "a"), put(tmp_path / "two", "b", "c")
    push_version(tmp_path / "one", "terminal", url)
    with pytest.raises(PushRefused, match=r"v0001 of .* with 1 rows .*, here is terminal@v0001 of .* with 2 rows"):
        push_version(tmp_path / "two", "terminal", url)
    assert pull(Place(url), "terminal", tmp_path / "copy").rows == 1


def test_of_two_contents_pushed_at_once_one_is_there_whole(tmp_path: Path, url: str) -> None:
    put(tmp_path / "one", "a"), put(tmp_path / "two", "b", "c")
    children = [child(PUSH, tmp_path / name, url) for name in ("one", "two")]
    answers = sorted(process.communicate(timeout=PATIENCE_S)[0].split()[0] for process in children)
    assert answers == ["created", "refused"]
    pull(Place(url), "terminal", tmp_path / "copy")


@pytest.mark.parametrize("bucket", BUCKETS[1:])
def test_so_it_is_where_the_server_knows_no_conditional_writes(
    tmp_path: Path, server: Mapping[str, str], bucket: str
) -> None:
    os.environ.update(server)
    url = f"s3://{bucket}/{uuid.uuid4().hex}"
    put(tmp_path / "one", "a"), put(tmp_path / "two", "b", "c")

    def pushed(name: str) -> str:
        try:
            return str(push_version(tmp_path / name, "terminal", url).created)
        except PushRefused:
            return "refused"

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(pushed, ("one", "two"))) == ["True", "refused"]
    pull(Place(url), "terminal", tmp_path / "copy")


def test_processes_that_push_and_pull_the_same_version_at_once_all_succeed(tmp_path: Path, url: str) -> None:
    version = put(tmp_path, *(f"t{n}" for n in range(50)))
    children = [child(PUSH + PULL, tmp_path, url, tmp_path / "copy") for _ in range(2)]
    answers = [process.communicate(timeout=PATIENCE_S)[0].split() for process in children]
    assert "created" in {pushed for pushed, _ in answers} <= {"created", "there"}
    assert sorted(fetched for _, fetched in answers) == ["0", "4"]
    assert load(tmp_path / "copy").equals(load(version.path))


def test_a_push_that_was_cut_off_is_no_version_and_the_next_one_goes_on(tmp_path: Path, url: str) -> None:
    version = put(tmp_path, rows("a", text="x" * 1000), rows("b", split="test"))
    (tmp_path / "cut").mkdir()
    shutil.copytree(tmp_path / "snapshots", tmp_path / "cut" / "snapshots")
    damaged = tmp_path / "cut" / "snapshots" / "terminal" / "v0001" / "data" / "test-00000.parquet"
    damaged.chmod(0o644)
    damaged.write_bytes(b"x")
    with pytest.raises(SnapshotDamaged, match=r"test-00000.parquet is missing or was changed; it is not sent"):
        push_version(tmp_path / "cut", "terminal", url)
    with pytest.raises(NoSuchVersion):
        resolved(Place(url), "terminal")
    put(tmp_path / "other", "z")
    with pytest.raises(PushRefused, match=r"is being sent another version .* remove s3://.*/terminal/claims/v0001/"):
        push_version(tmp_path / "other", "terminal", url)
    pushed = push_version(tmp_path, "terminal", url)
    assert pushed.created and pushed.sent < 5
    assert pull(Place(url), "terminal", tmp_path / "copy").rows == version.rows


def test_a_pusher_killed_while_it_sends_leaves_no_version_and_the_next_one_goes_on(tmp_path: Path, url: str) -> None:
    put(tmp_path, *(f"t{n}" for n in range(300)))
    process = child(KILLED + PUSH, tmp_path, url)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL
    assert len(Place(url).names("terminal/claims/v0001")) == 1
    with pytest.raises(NoSuchVersion):
        resolved(Place(url), "terminal")
    assert push_version(tmp_path, "terminal", url).created
    assert Place(url).names("terminal/claims/v0001") == []
    assert pull(Place(url), "terminal", tmp_path / "copy").rows == 300


def test_a_file_that_was_changed_there_is_named_and_nothing_looks_whole(tmp_path: Path, url: str) -> None:
    put(tmp_path, "a")
    push_version(tmp_path, "terminal", url)
    size = Place(url).size("terminal/v0001/data/train-00000.parquet")
    Place(url).write("terminal/v0001/data/train-00000.parquet", b"x" * (size or 0))
    with pytest.raises(SnapshotDamaged, match=r"s3://.*/train-00000.parquet was changed"):
        pull(Place(url), "terminal", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert not list(tmp_path.glob(".copy.unfinished/manifest.json"))


def test_a_reference_that_is_not_there_names_what_is(tmp_path: Path, url: str) -> None:
    put(tmp_path, "a")
    tag(tmp_path, "terminal", "v0001", "good")
    push_version(tmp_path, "terminal", url)
    for reference in ("terminal@v0002", "terminal@odd", "terminal@2000-01-01"):
        with pytest.raises(NoSuchVersion, match=r"'terminal' has v0001, good there"):
            resolved(Place(url), reference)


def test_a_bucket_that_is_not_there_is_the_fault_of_the_place(tmp_path: Path, url: str) -> None:
    put(tmp_path, "a")
    with pytest.raises(InfrastructureFailure, match=r"s3://nowhere/x/.*bucket does not exist"):
        push_version(tmp_path, "terminal", "s3://nowhere/x")


def test_an_address_with_a_key_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Place("s3://key:hidden@plain/x")
    assert "hidden" not in str(caught.value) and "s3://plain/x" in str(caught.value)


def test_a_web_server_is_read_with_and_without_its_listing(tmp_path: Path, url: str) -> None:
    del url  # only its environment: the web server is reached without a proxy
    version = put(tmp_path, "a", "b")
    tag(tmp_path, "terminal", "v0001", "good")
    handler = partial(_Quiet, directory=str(tmp_path / "snapshots"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            place = Place(f"http://127.0.0.1:{web.server_port}")
            for reference in ("terminal@v0001", "terminal", "terminal@good"):
                assert pull(place, reference, tmp_path / "copies" / reference).rows == 2
            with pytest.raises(NoSuchVersion):
                resolved(place, "other@v0001")
        finally:
            web.shutdown()
            thread.join()
    assert load(tmp_path / "copies" / "terminal").equals(load(version.path))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: it would be the output of the tests."""


def test_a_pushed_tag_moves_but_not_that_of_a_night(tmp_path: Path, url: str) -> None:
    def pushed(root: Path, *tags: str) -> Pushed:
        version = locate(root, "terminal").name
        for one in tags:
            tag(root, "terminal", version, one)
        return push_version(root, "terminal", url)

    put(tmp_path, "a")
    pushed(tmp_path, "good", "nightly-2026-01-02")
    other = tmp_path / "other"
    put(other, "a"), put(other, "b")
    assert pushed(other, "good").tags == ("good",)
    assert resolved(Place(url), "terminal@good").manifest.version == "v0002"
    with pytest.raises(PushRefused, match=r"nightly-2026-01-02 of 'terminal' is v0001 in s3://.* and v0002 here"):
        pushed(other, "nightly-2026-01-02")
