"""A sandbox leaves nothing on the machine, and nothing in its driver. The long form of this is `make bench-leak`."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from sandbox.engine import address
from sandbox.protocol import Backend
from sandbox.types import Limits
from tests.bench.footprint import Footprint, left_since, look
from tests.bench.leak import growth, run_trials
from tests.bench.rollout import run
from tests.bench.tasks import Task
from tests.bench.trials import TrialFailed

pytestmark = [pytest.mark.docker, pytest.mark.slow]

TRIALS = 30
TASK = Task(
    name="note",
    instruction="Write `done` to /note.",
    setup={},
    solution=("echo done > /note",),
    verifier="from pathlib import Path\n\ndef test_note():\n    assert Path('/note').read_text() == 'done\\n'\n",
)


@pytest.fixture
def engine_socket(data_folder: Path) -> Path:
    """Where the engine listens."""
    engine = address(data_folder)
    return engine.socket if engine else Path("/var/run/docker.sock")


def test_thirty_trials_leave_nothing_behind(
    backend: Backend, image: str, client: docker.DockerClient, engine_socket: Path, data_folder: Path
) -> None:
    def look_now() -> Footprint:
        return look(backend, client, engine_socket, data_folder)

    # What is made once and stays, the verifier's runtime say, is made before the first look.
    run_trials(backend, image, [TASK], 1)
    before = look_now()
    early, late = run_trials(backend, image, [TASK], TRIALS)
    assert growth(early, late) == []
    assert left_since(before, look_now).lines() == []


def test_what_an_open_sandbox_and_a_kept_state_take_is_seen(
    backend: Backend, image: str, client: docker.DockerClient, engine_socket: Path, data_folder: Path
) -> None:
    before = look(backend, client, engine_socket, data_folder)
    reference = f"test-{uuid.uuid4().hex}"
    sandbox = backend.start(image, Limits(lifetime_s=300))
    try:
        started = "setsid sleep 1000 > /dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done"
        assert sandbox.execute(started, timeout_s=20).exit_code == 0
        with_sandbox = look(backend, client, engine_socket, data_folder) - before
        sandbox.freeze(reference)
        with_state = look(backend, client, engine_socket, data_folder) - before
    finally:
        sandbox.close()
        backend.discard(reference)
    assert any("sleep" in name for name in with_sandbox.processes)
    assert with_sandbox.cgroups and with_sandbox.mounts and with_sandbox.network
    assert reference in with_state.states


def test_attempts_of_a_model_that_answers_at_once_pass_and_are_paid_for_by_the_turn(
    backend: Backend, image: str, tmp_path: Path
) -> None:
    found = run(backend, image, tmp_path, tasks=[TASK], rollouts=8, parallel=4, rounds=2)
    assert found["rollouts"] == 8
    assert float(str(found["overhead_ms_per_turn"])) > 0


def test_an_attempt_that_does_not_pass_makes_every_figure_void(backend: Backend, image: str, tmp_path: Path) -> None:
    unsolved = replace(TASK, solution=("echo undone > /note",))
    with pytest.raises(TrialFailed, match="did not pass"):
        run(backend, image, tmp_path, tasks=[unsolved], rollouts=2, parallel=2, rounds=1)
