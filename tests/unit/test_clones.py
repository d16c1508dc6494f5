"""Trees through git: what is asked of which host, what ends a clone, and what is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.checkout import CheckoutConfig
from pipeline.clones import CloneConfig, Cloner, submodule_address
from pipeline.errors import InfrastructureFailure, ItemRejected
from pipeline.types import Submodule
from tests.github_server import objects as git_objects
from tests.github_server.limits import Fault
from tests.github_server.world import World
from tests.unit.crawled_hub import Hub, hub

PARENT = "https://hub.example.com/owner/name.git"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path, World(20, kinds=dict.fromkeys(range(1, 21), "usual"))) as one:
        yield one


def cloner(place: Hub, *, timeout_s: float = 60, token: str | None = None, **limits: int) -> Cloner:
    authorization = None if token is None else SecretStr(token)
    return Cloner(place.folder / "clones", CloneConfig(timeout_s=timeout_s), CheckoutConfig(**limits), authorization)


def address(place: Hub, number: int = 1) -> str:
    return f"{place.server.address}/{place.world.first_name(number)}.git"


def commit(place: Hub, number: int = 1) -> str:
    return git_objects.objects(place.world, number).commit


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("git@hub.example.com:other/child.git", "https://hub.example.com/other/child.git"),
        ("hub.example.com:other/child", "https://hub.example.com/other/child"),
        ("ssh://git@hub.example.com:22/other/child.git", "https://hub.example.com/other/child.git"),
        ("git://hub.example.com/other/child.git", "https://hub.example.com/other/child.git"),
        ("http://hub.example.com/other/child.git", "https://hub.example.com/other/child.git"),
        ("https://someone:secret@hub.example.com/other/child.git", "https://hub.example.com/other/child.git"),
        ("../child.git", "https://hub.example.com/owner/child.git"),
        ("../../other/child.git", "https://hub.example.com/other/child.git"),
        ("./child.git", "https://hub.example.com/owner/name.git/child.git"),
        ("https://elsewhere.example.org/other/child.git", None),
        ("git@elsewhere.example.org:other/child.git", None),
        ("http://169.254.169.254/latest", None),
        ("file:///etc/passwd", None),
        ("/srv/child.git", None),
        ("ext::sh -c true", None),
        ("", None),
    ],
)
def test_the_address_of_a_submodule_is_that_of_its_parents_host_or_none(url: str, found: str | None) -> None:
    assert submodule_address(url, PARENT) == found


def test_the_head_is_the_commit_of_the_default_branch(place: Hub) -> None:
    assert cloner(place).head(address(place)) == commit(place)


@pytest.mark.parametrize(
    ("status", "words", "failure_class"),
    [(404, "no", "gone"), (451, "dmca", "blocked"), (403, "disabled", "blocked"), (401, "login", "gone")],
)
def test_what_git_is_answered_is_a_reason(place: Hub, status: int, words: str, failure_class: str) -> None:
    headers = {"Content-Type": "text/plain"} | ({"WWW-Authenticate": 'Basic realm="x"'} if status == 401 else {})
    place.limits.faults.append(Fault(r"\.git/", status, headers, words, times=-1))
    with pytest.raises(ItemRejected) as caught:
        cloner(place).clone(address(place), commit(place), "one")
    assert caught.value.failure_class == failure_class


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_is_busy_is_a_fault_of_the_infrastructure(place: Hub, status: int) -> None:
    place.limits.faults.append(Fault(r"\.git/", status, {"Content-Type": "text/plain"}, "busy", times=-1))
    with pytest.raises(InfrastructureFailure):
        cloner(place).clone(address(place), commit(place), "one")


def test_a_host_that_is_not_there_is_a_fault_of_the_infrastructure(place: Hub) -> None:
    with pytest.raises(InfrastructureFailure, match="git: "):
        cloner(place).clone("http://127.0.0.1:9/owner/name.git", commit(place), "one")
    with pytest.raises(InfrastructureFailure, match="git: "):
        cloner(place).head("http://127.0.0.1:9/owner/name.git")


def test_an_empty_repository_has_no_head(place: Hub) -> None:
    place.world.become(1, "empty")
    with pytest.raises(ItemRejected) as caught:
        cloner(place).head(address(place))
    assert caught.value.failure_class == "empty_repository"


@pytest.mark.parametrize("name", ["main", "--upload-pack=touch x", "HEAD", ""])
def test_only_a_commit_is_asked_for(place: Hub, name: str) -> None:
    with pytest.raises(ItemRejected) as caught:
        cloner(place).clone(address(place), name, "one")
    assert caught.value.failure_class == "gone" and not place.server.requests


def test_a_host_that_never_answers_ends_at_the_time_limit(place: Hub) -> None:
    place.server.serving.clear()
    try:
        with pytest.raises(InfrastructureFailure, match=r"took longer than 0\.5 s"):
            cloner(place, timeout_s=0.5).clone(address(place), commit(place), "one")
        with pytest.raises(InfrastructureFailure, match=r"took longer than 0\.5 s"):
            cloner(place, timeout_s=0.5).head(address(place))
    finally:
        place.server.serving.set()
    assert list((place.folder / "clones").iterdir()) == []


def test_what_is_sent_beyond_the_limits_ends_the_clone(place: Hub) -> None:
    url, one = with_extra_file(place, os.urandom(9_000_000))
    with pytest.raises(ItemRejected) as caught:
        cloner(place, max_bytes=1_000).clone(url, one, "one")
    assert caught.value.failure_class == "too_large" and "are sent for it" in caught.value.reason
    assert list((place.folder / "clones").iterdir()) == []


def with_extra_file(place: Hub, data: bytes) -> tuple[str, str]:
    """A repository of the hub with one more file: its address and its commit."""
    cloner(place).clone(address(place), commit(place), "first")
    folder = next(place.server.git.folder.glob("1.git"))

    def git(*arguments: str, given: bytes = b"") -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        command = ["git", f"--git-dir={folder}", *identity, *arguments]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout.decode().strip()

    blob = git("hash-object", "-w", "--stdin", given=data)
    tree = git("mktree", given=f"100644 blob {blob}\tlarge.bin\n".encode())
    return address(place), git("commit-tree", tree, "-m", "large")


def test_what_a_killed_clone_left_is_removed_by_the_next_one(place: Hub) -> None:
    left = place.folder / "clones" / "one" / "objects"
    left.mkdir(parents=True)
    (left / "tmp_pack").write_bytes(b"half")
    assert cloner(place).clone(address(place), commit(place), "one").tree.members["README.md"].size > 0
    assert list((place.folder / "clones").iterdir()) == []


def test_a_token_is_sent_to_the_host_that_is_asked(place: Hub) -> None:
    cloner(place, token="one").clone(address(place), commit(place), "one")
    assert place.server.secrets_seen == {"Basic eC1hY2Nlc3MtdG9rZW46b25l"}


def test_a_redirect_is_followed_without_a_token_and_never_with_one(place: Hub) -> None:
    old = address(place)
    place.world.rename(1, "other")
    warnings = cloner(place).clone(old, commit(place), "one").tree.warnings
    assert any("redirected to" in warning and "other-1" in warning for warning in warnings)
    with pytest.raises(ItemRejected) as caught:
        cloner(place, token="one").clone(old, commit(place), "one")
    assert caught.value.failure_class == "gone"


def test_a_token_is_in_no_argument_and_no_variable(place: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "seen.txt"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >> {log}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    cloner(place, token="token-of-secrets").clone(address(place), commit(place), "one")
    encoded = "eC1hY2Nlc3MtdG9rZW46dG9rZW4tb2Ytc2VjcmV0cw=="
    assert place.server.secrets_seen == {f"Basic {encoded}"}
    assert "fetch" in log.read_text() and encoded not in log.read_text() and "secrets" not in log.read_text()


def test_nothing_of_our_git_configuration_counts(place: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text(f'[url "http://127.0.0.1:9/"]\n\tinsteadOf = {place.server.address}/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert cloner(place).clone(address(place), commit(place), "one").tree.members


def test_submodules_of_other_hosts_are_recorded_and_not_asked_for(place: Hub) -> None:
    place.world.become(1, "submodule")
    place.world.submodule_host = "127.0.0.2"
    found = cloner(place).clone(address(place), commit(place), "one")
    url = f"git@127.0.0.2:{place.world.first_name(2)}.git"
    assert found.submodules == (Submodule(path="vendor/child", url=url, commit=commit(place, 2)),)
    assert any("another host" in warning for warning in found.tree.warnings)
    assert not any(name.startswith("vendor") for name in found.tree.members)


def test_a_submodule_that_is_gone_leaves_the_rest(place: Hub) -> None:
    place.world.become(1, "submodule")
    url, one = address(place), commit(place)
    clone = cloner(place)
    place.limits.faults.append(Fault(place.world.first_name(2), 404, {"Content-Type": "text/plain"}, "no", times=-1))
    found = clone.clone(url, one, "one")
    assert "README.md" in found.tree.members
    assert any(
        warning.startswith("submodule vendor/child is not part of the tree: gone") for warning in found.tree.warnings
    )
