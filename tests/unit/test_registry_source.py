"""The pinned list, and what is concluded from a client's answer. The answers are recorded ones; real downloads are in
tests/integration/test_registry_fetch.py."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.sources.registry import RegistryConfig, RegistrySource, read_packages
from pipeline.types import LANGUAGES, Checkout
from sandbox.types import ExecResult
from tests.unit.recorded_clients import RecordedBackend, RecordedSandbox, answer, archive

ARCHIVE = archive({"package/index.js": b"1;\n", "package/package.json": b'{"license": "MIT"}'})


def package(ecosystem: str = "npm", **fields: object) -> dict[str, object]:
    file = {"npm": "x-1.0.tgz", "pypi": "x-1.0.tar.gz", "debian": "x_1.0.dsc"}[ecosystem]
    files = {file: hashlib.sha256(ARCHIVE).hexdigest()}
    base = {"ecosystem": ecosystem, "name": "x", "version": "1.0", "language": "javascript", "files": files}
    return base | fields


def source(tmp_path: Path, sandbox: RecordedSandbox | None, *packages: dict[str, object]) -> RegistrySource:
    path = tmp_path / "packages.json"
    path.write_text(json.dumps({"packages": packages or [package()]}))
    config = RegistryConfig(packages=path)
    return RegistrySource(config, CheckoutConfig(), RecordedBackend(sandbox), lambda: "sha256:fetch")


def fetched(tmp_path: Path, sandbox: RecordedSandbox | None, *packages: dict[str, object]) -> Checkout:
    one = source(tmp_path, sandbox, *packages)
    (repository,) = one.repositories(None)
    return one.fetch(repository, tmp_path / "sources")


def test_the_shipped_list_has_at_least_three_packages_of_each_language() -> None:
    packages = read_packages(RegistryConfig().packages)
    counts = Counter(one.language for one in packages)
    assert set(counts) == set(LANGUAGES) and min(counts.values()) >= 3
    assert {one.ecosystem for one in packages} == {"debian", "npm", "pypi"}


def test_a_package_is_listed_without_any_container() -> None:
    listed = list(RegistrySource(RegistryConfig(), CheckoutConfig(), RecordedBackend(None), str).repositories(None))
    gron = next(one for one in listed if one.full_name == "debian/gron")
    assert (gron.commit, gron.language, gron.locator) == ("0.7.1-1", "go", "pkg:deb/debian/gron@0.7.1-1")
    assert gron.archive_sha256 is not None and len({one.repository_id for one in listed}) == len(listed)


def test_an_archive_with_the_pinned_hash_is_stored_and_the_container_closed(tmp_path: Path) -> None:
    sandbox = RecordedSandbox([answer(0)], {"x-1.0.tgz": ARCHIVE})
    checkout = fetched(tmp_path, sandbox)
    assert (checkout.n_files, checkout.license) == (2, "MIT")
    assert sandbox.closed and "npm pack --ignore-scripts" in sandbox.commands[0]


def test_only_the_download_gets_a_network_and_the_fetch_image_is_asked_for(tmp_path: Path) -> None:
    sandbox = RecordedSandbox([answer(0)], {"x-1.0.tgz": ARCHIVE})
    backend = RecordedBackend(sandbox)
    path = tmp_path / "packages.json"
    path.write_text(json.dumps({"packages": [package()]}))
    one = RegistrySource(RegistryConfig(packages=path), CheckoutConfig(), backend, lambda: "sha256:fetch")
    one.fetch(next(one.repositories(None)), tmp_path / "sources")
    ((image, limits),) = backend.started
    assert image == "sha256:fetch" and limits.network == "bridge"


def test_another_hash_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    sandbox = RecordedSandbox([answer(0)], {"x-1.0.tgz": ARCHIVE + b"\0"})
    with pytest.raises(ItemRejected, match=r"hash_mismatch: .*pinned is") as caught:
        fetched(tmp_path, sandbox)
    assert caught.value.failure_class == "hash_mismatch" and sandbox.closed
    assert not (tmp_path / "sources").exists()


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ItemRejected, match="hash_mismatch: the registry delivered no file"):
        fetched(tmp_path, RecordedSandbox([answer(0)], {"other-1.0.tgz": ARCHIVE}))


@pytest.mark.parametrize(
    ("ecosystem", "answers"),
    [
        ("npm", [answer(1, "npm error code E404\nnpm error 404 Not Found - GET")]),
        ("npm", [answer(1, "npm error code ETARGET\nnpm error notarget No matching version found for x@1.0")]),
        ("pypi", [answer(1, "No matches are found.")]),
        (
            "pypi",
            [
                answer(
                    1, "WARNING: Failed to collect links from …/x/: Client Error(404): Not Found\nNo matches are found."
                )
            ],
        ),
        (
            "debian",
            [answer(100, "E: Can not find version '1.0' of package 'x'\nE: Unable to find a source package for x")] * 2,
        ),
        ("debian", [answer(100, "E: Failed to fetch …/x_1.0.dsc  404  Not Found")] * 2),
    ],
)
def test_a_version_that_is_not_offered_is_the_fault_of_the_pin(
    tmp_path: Path, ecosystem: str, answers: list[ExecResult]
) -> None:
    with pytest.raises(ItemRejected, match=r"gone: .*pin a newer version"):
        fetched(tmp_path, RecordedSandbox(answers, {}), package(ecosystem))


@pytest.mark.parametrize(
    ("ecosystem", "answers"),
    [
        ("npm", [answer(1, "npm error code ENOTFOUND\nnpm error network request failed")]),
        ("pypi", [answer(1, "httpx.ConnectError: [Errno -3] Temporary failure in name resolution")]),
        ("pypi", [answer(1, "WARNING: Failed to collect links from …/x/: Server Error(503)\nNo matches are found.")]),
        ("debian", [answer(100, "E: Failed to fetch …/x_1.0.dsc  Temporary failure resolving")] * 2),
        ("npm", [answer(None)]),
        ("npm", [answer(127, "npm: command not found")]),
    ],
)
def test_a_registry_that_does_not_answer_is_infrastructure(
    tmp_path: Path, ecosystem: str, answers: list[ExecResult]
) -> None:
    sandbox = RecordedSandbox(answers, {})
    with pytest.raises(InfrastructureFailure, match=r"x 1\.0: not downloaded"):
        fetched(tmp_path, sandbox, package(ecosystem))
    assert sandbox.closed


def test_the_package_lists_are_read_anew_before_a_debian_version_counts_as_gone(tmp_path: Path) -> None:
    unknown = answer(100, "E: Unable to find a source package for x")
    sandbox = RecordedSandbox([unknown, answer(0), answer(0)], {"x_1.0.dsc": ARCHIVE, "tree.tar": ARCHIVE})
    assert fetched(tmp_path, sandbox, package("debian")).n_files == 2
    assert "apt-get update" in sandbox.commands[1] and "dpkg-source" in sandbox.commands[2]


def test_an_engine_that_is_gone_is_infrastructure(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureFailure, match="the engine is gone"):
        fetched(tmp_path, None)


def test_a_package_that_left_the_list_is_refused(tmp_path: Path) -> None:
    (repository,) = source(tmp_path, None, package(version="0.9")).repositories(None)
    with pytest.raises(ItemRejected, match=r"gone: .* is not in the list"):
        source(tmp_path, None).fetch(repository, tmp_path / "sources")


@pytest.mark.parametrize(
    ("packages", "named"),
    [
        ([package(version="1; rm -rf /")], "packages.0.version"),
        ([package(name="$(id)")], "packages.0.name"),
        ([package(language="cobol")], "packages.0.language"),
        ([package(files={"x.tgz": "abc"})], "packages.0: .*64 lower-case hex digits"),
        ([package(files={"../x.tgz": "0" * 64})], "packages.0: .*plain file name"),
        ([package("debian", files={"x.tar.xz": "0" * 64})], "exactly one .dsc"),
        ([package(files={"a": "0" * 64, "b": "0" * 64})], "exactly one archive"),
        ([package(), package()], "npm x 1.0 stands twice"),
    ],
)
def test_a_wrong_list_names_its_fault(tmp_path: Path, packages: list[dict[str, object]], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        source(tmp_path, None, *packages)


def test_a_list_that_is_not_there_names_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json cannot be read"):
        read_packages(tmp_path / "none.json")
