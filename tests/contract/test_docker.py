"""What only the docker backend promises: its containers can be ended from outside, which is no result of a command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import docker
import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.building.base_images import BaseImages
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Sandbox
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=512, lifetime_s=300)


@pytest.fixture
def box(client: docker.DockerClient, bases: BaseImages, image: str) -> Iterator[Sandbox]:
    """A fresh sandbox."""
    sandbox = DockerBackend(client, VerifierRuntime(client, bases)).start(image, LIMITS)
    yield sandbox
    sandbox.close()


def run(sandbox: Sandbox, command: str) -> str:
    """Output of a command that succeeds."""
    result = sandbox.execute(command, timeout_s=20)
    assert result.exit_code == 0, result
    return result.output


def test_a_container_stopped_from_outside_is_not_a_result(box: Sandbox, client: docker.DockerClient) -> None:
    run(box, "true")
    [mine] = client.containers.list(filters={"id": box._container})  # type: ignore[attr-defined]
    mine.kill()
    with pytest.raises(SandboxUnavailable, match="from outside"):
        box.execute("true", timeout_s=20)


def test_a_container_stopped_from_outside_while_a_command_runs_is_not_a_result(
    box: Sandbox, client: docker.DockerClient
) -> None:
    [mine] = client.containers.list(filters={"id": box._container})  # type: ignore[attr-defined]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(box.execute, "echo begun; sleep 30", timeout_s=20)
        while b"sleep 30" not in mine.exec_run(["ps", "-eo", "args="]).output:
            time.sleep(0.05)
        mine.kill()
        with pytest.raises(SandboxUnavailable, match="from outside"):
            running.result(20)
