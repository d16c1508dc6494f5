"""Tasks whose end state is a running service: judged while it runs, on both backends, and through the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.types import Step, TaskInstance, Trajectory, Verifier, VerifierFile
from pipeline.verification import JUDGED_LIVE, replay, verify
from sandbox.building.base_images import BaseImages
from sandbox.protocol import Backend, Sandbox
from sandbox.types import Limits

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=512, lifetime_s=300)
SERVE = (
    "mkdir -p /srv/site && echo from the service > /srv/site/page && cd /srv/site && "
    "(python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 &) && "
    "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))' 2>/dev/null; do sleep 0.05; done"
)
TEST = """
import urllib.request
from pathlib import Path


def test_the_service_answers():
    assert urllib.request.urlopen("http://127.0.0.1:8123/page", timeout=5).read() == b"from the service\\n"


def test_files_are_there():
    assert Path("/srv/site/page").exists()
"""


@pytest.fixture(scope="module")
def python(bases: BaseImages) -> str:
    """Digest of an image with python3."""
    return bases.toolchain("python").digest


@pytest.fixture
def box(backend: Backend, python: str) -> Iterator[Sandbox]:
    """A sandbox in which the service runs."""
    sandbox = backend.start(python, LIMITS)
    assert sandbox.execute(SERVE, timeout_s=60).exit_code == 0
    yield sandbox
    sandbox.close()


def outcomes(backend: Backend, sandbox: Sandbox) -> dict[str, str]:
    judged = backend.judge_live(sandbox, {"test_live.py": TEST}, limits=LIMITS, timeout_s=60)
    return {test.test_id.partition("::")[2]: test.outcome for test in judged.tests}


def test_a_verdict_while_the_service_runs_and_the_sandbox_goes_on(backend: Backend, box: Sandbox) -> None:
    assert outcomes(backend, box) == {"test_the_service_answers": "passed", "test_files_are_there": "passed"}
    box.execute(
        "rm /srv/site/page; for p in /proc/[0-9]*; do grep -q http.server $p/cmdline && kill ${p#/proc/}; done",
        timeout_s=20,
    )
    assert outcomes(backend, box) == {"test_the_service_answers": "failed", "test_files_are_there": "failed"}


def test_attack_a_service_cannot_reach_the_verifier_that_asks_it(backend: Backend, box: Sandbox) -> None:
    judged = backend.judge_live(
        box,
        {
            "test_apart.py": "import os\nfrom pathlib import Path\n\n\ndef test_apart():\n"
            "    names = [p for p in os.listdir('/proc') if p.isdigit()]\n"
            "    assert not any('http.server' in Path(f'/proc/{p}/cmdline').read_text() for p in names)\n"
        },
        limits=LIMITS,
        timeout_s=60,
    )
    assert [test.outcome for test in judged.tests] == ["passed"]


def test_rows_say_that_they_were_judged_live(backend: Backend, python: str, task: TaskInstance) -> None:
    verifier = Verifier(
        files=(VerifierFile(path="test_live.py", content=TEST),),
        passing_tests=("test_live.py::test_files_are_there", "test_live.py::test_the_service_answers"),
    )
    live = task.model_copy(
        update={"image_digest": python, "verifier": verifier, "state_scope": "live", "limits": LIMITS}
    )

    def attempt(command: str) -> Trajectory:
        steps = (Step(index=0, observation="", action=command, exit_code=0), Step(index=1, observation="", action=""))
        return Trajectory.model_validate(
            {
                "instance_id": live.instance_id,
                "agent": "oracle",
                "sample": 0,
                "steps": steps,
                "stop_reason": "submitted",
                "state_reference": "never-kept",
            }
        )

    served = verify(live, attempt(SERVE), backend, command_timeout_s=60)
    assert (served.outcome, served.integrity) == ("passed", (JUDGED_LIVE,))
    assert verify(live, attempt("true"), backend, command_timeout_s=60).outcome == "failed"
    assert replay(live, attempt(SERVE), "passed", backend, command_timeout_s=60).same
