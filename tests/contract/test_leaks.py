"""A sandbox leaves nothing on the machine, and nothing in its driver. The long form of this is `make bench-leak`."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from sandbox.engine import address
from sandbox.protocol import Backend
from tests.bench.footprint import Footprint, left_since, look
from tests.bench.leak import growth, run_trials
from tests.bench.tasks import Task

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
    left = left_since(before, look_now)
    assert not left, left
