"""Exported attempts in Harbor itself: its validator takes every document, and its viewer shows every trial.

Harbor runs in the root that `make peers` makes, which takes too long for every run of the suite: `make test-peers`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.exports.atif_job import export_job
from pipeline.exports.recorded import RecordedAttempt
from pipeline.types import TaskInstance
from tests.bench.harbor import PROGRAM, START_S, enter
from tests.unit.recorded_trials import KINDS, attempt

pytestmark = [pytest.mark.docker, pytest.mark.peers]

OUTCOMES = ("passed", "failed", "error", None, "passed", "failed")
_VALIDATE = (
    'for file in "$1"/*/agent/trajectory.json; do python -m harbor.utils.trajectory_validator "$file" || exit; done'
)


@pytest.fixture
def attempts(task: TaskInstance) -> list[RecordedAttempt]:
    """One of every kind, with every verdict."""
    return [attempt(kind, task, outcome=outcome) for kind, outcome in zip(KINDS, OUTCOMES, strict=True)]


@pytest.fixture
def job(data_folder: Path, attempts: list[RecordedAttempt]) -> Iterator[Path]:
    """Their job folder, where Harbor's root has the same path."""
    peers = data_folder / "peers"
    if os.geteuid() != 0 or not (peers / "root" / ".stamp-harbor").exists():
        pytest.fail("call `make peers` as root before these tests")
    folder = peers / "work" / f"view-{uuid.uuid4().hex}"
    folder.parent.mkdir(exist_ok=True)
    try:
        export_job(attempts, folder)
        yield folder / "touchstone"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def viewer(job: Path) -> Iterator[str]:
    """Address of `harbor view` on the job's folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["harbor", "view", str(job.parent), "--port", str(port), "--no-build"]
    with subprocess.Popen([str(PROGRAM), "enter", *command]) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(address, process)
            yield address
        finally:
            process.terminate()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < limit:
        try:
            _page(f"{address}/api/health")
            return
        except urllib.error.URLError:
            time.sleep(0.2)
    pytest.fail("harbor view does not answer")


def _page(address: str) -> str:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(address, timeout=START_S) as answer:
        return str(answer.read().decode())


def _json(address: str) -> Any:
    return json.loads(_page(address))


def test_the_validator_takes_every_kind_of_attempt(job: Path) -> None:
    code, said = enter("sh", "-c", _VALIDATE, "sh", str(job), timeout_s=START_S)
    assert (code, said.count("Trajectory is valid")) == (0, len(KINDS)), said


def test_the_viewer_shows_every_trial_with_its_reward(viewer: str, job: Path, attempts: list[RecordedAttempt]) -> None:
    assert "<html" in _page(f"{viewer}/jobs/touchstone")
    [seen] = _json(f"{viewer}/api/jobs")["items"]
    assert (seen["n_total_trials"], seen["n_errored_trials"], seen["models"]) == (len(KINDS), 1, ["scripted"])
    trials = {one["name"]: one for one in _json(f"{viewer}/api/jobs/touchstone/trials")["items"]}
    expected = {"passed": 1, "failed": 0, "error": None, None: None}
    for recorded in attempts:
        trajectory, verdict = recorded.trajectory, recorded.verdict
        place = f"{viewer}/api/jobs/touchstone/trials/{trajectory.trajectory_id}"
        found = trials[trajectory.trajectory_id]
        assert (found["reward"], found["agent_name"]) == (
            expected[verdict.outcome if verdict else None],
            trajectory.agent,
        )
        written = json.loads((job / trajectory.trajectory_id / "agent" / "trajectory.json").read_text())
        assert _json(f"{place}/trajectory") == written
        shown = _json(f"{place}/verifier-output")["ctrf"]
        assert (shown is None) == (verdict is None) and "test_count" in (shown or "test_count")
