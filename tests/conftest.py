"""What a test needs from its machine. `--require docker` turns a missing engine from a skip into a failure."""

from __future__ import annotations

import functools
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from pipeline.types import TaskInstance, Verifier, VerifierFile
from sandbox.engine import connect
from sandbox.errors import SandboxUnavailable
from tests.e2e.browsers import PROGRAMS, chromium
from tests.integration.postgres_servers import programs

PROJECT = Path(__file__).resolve().parent.parent
NEEDS = ("docker", "network", "browser", "postgres")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require", action="append", default=[], choices=NEEDS, help="fail where this is missing")


def pytest_configure() -> None:
    # What imports and the collection of tests make stays: to look for garbage in it took a third of their time.
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Dagster in the process of the tests leaves SIGTERM as SIGINT is, which tests in the background ignore."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return (yield)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests of environments measured, which nothing depends on."""
    reports = (one for name in ("passed", "failed") for one in terminalreporter.stats.get(name, ()))
    told = sorted(text for one in reports for name, text in one.user_properties if name == "environment")
    if told:
        terminalreporter.section("environments")
        terminalreporter.write_line("\n".join(told))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need in NEEDS:
        if item.get_closest_marker(need) is None:
            continue
        fault = _fault(need)
        if fault and need in item.config.getoption("--require"):
            pytest.fail(f"--require {need}: {fault}", pytrace=False)
        elif fault:
            pytest.skip(fault)


@functools.cache
def _fault(need: str) -> str:
    """Why the machine cannot serve this need; empty when it can. Asked once, and only when a test has the marker."""
    if need == "docker":
        try:
            connect(_data(), timeout_s=20).close()
        except SandboxUnavailable as error:
            return str(error)
        return ""
    if need == "browser":
        return "" if chromium() else f"none of {', '.join(PROGRAMS)} is on PATH; infra/bootstrap.sh test installs one"
    if need == "postgres":
        return "" if programs() else "there is no PostgreSQL; infra/bootstrap.sh test installs one"
    # pip knows the index of this machine, whatever it is.
    command = [sys.executable, "-m", "pip", "index", "versions", "iniconfig", "--retries", "0", "--timeout", "10"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return "" if answer.returncode == 0 else f"no package index answers ({answer.stderr.strip()[-200:]})"


def _data() -> Path:
    return Path(os.environ.get("TOUCHSTONE_DATA") or PROJECT / "data").absolute()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What a test does to the environment ends with it: the command line sets variables for its children."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Options of a command that name an empty configuration and a data folder of this test."""
    from assets.resources import open_workshop

    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG"):
        monkeypatch.setenv(variable, "")  # what a command puts there is taken back afterwards
    (tmp_path / "touchstone.toml").write_text("")
    open_workshop.cache_clear()
    yield ["--config", str(tmp_path / "touchstone.toml"), "--data", str(tmp_path / "data")]
    open_workshop.cache_clear()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The data folder whose engine the tests use. What a test puts there it removes."""
    return _data()


@pytest.fixture(scope="session")
def task() -> TaskInstance:
    """A small task; nothing of it is ever run."""
    return TaskInstance(
        repository_id="repo-1",
        image_digest="sha256:1",
        instruction="Write the number of lines of words.txt to count.txt.",
        solution=("cd data", "wc -l < words.txt > count.txt"),
        verifier=Verifier(
            files=(VerifierFile(path="test_state.py", content="def test_count(): assert True\n"),),
            passing_tests=("test_state.py::test_count",),
        ),
        generator="documented",
        language="python",
        family="printed_text",
        difficulty="easy",
        provenance={"document": "README.md"},
    )
