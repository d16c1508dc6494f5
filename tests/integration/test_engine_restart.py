"""An engine that ends and comes back while sandboxes run: nothing is concluded, nothing is left, work goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import OWNER, connect
from sandbox.errors import SandboxUnavailable
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.integration.engines import bootstrap
from tests.integration.small_engines import import_shell

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=256, lifetime_s=300)


def backends(data: Path) -> tuple[DockerBackend, OverlayBackend]:
    client = connect(data)
    runtime = VerifierRuntime(client, BaseImages(client, BaseImageConfig(), data))
    contained = DockerBackend(client, runtime)
    return contained, OverlayBackend(client, runtime, contained, data)


def test_misuse_an_engine_that_restarts_is_no_result_of_a_command(folder: Callable[[], Path]) -> None:
    data = folder()
    assert bootstrap(data, "engine").returncode == 0
    client = connect(data)
    image = import_shell(client)
    contained, fast = backends(data)
    try:
        boxes = {backend.name: backend.start(image, LIMITS) for backend in (contained, fast)}
        for box in boxes.values():
            assert box.execute("word=kept; echo $word", timeout_s=20).output == "kept\n"
        assert bootstrap(data, "down").returncode == 0
        with pytest.raises(SandboxUnavailable):
            boxes["docker"].execute("echo $word", timeout_s=20)
        assert boxes["overlay"].execute("echo $word", timeout_s=20).output == "kept\n"
        assert bootstrap(data, "engine").returncode == 0
        with pytest.raises(SandboxUnavailable):
            boxes["docker"].execute("echo $word", timeout_s=20)
        assert boxes["overlay"].execute("echo $word", timeout_s=20).output == "kept\n"
        for box in boxes.values():
            box.close()
        for backend in (contained, fast):
            again = backend.start(image, LIMITS)
            assert again.execute("echo works", timeout_s=20).output == "works\n"
            again.close()
        contained.reap()
        assert client.api.containers(all=True, filters={"label": OWNER}) == []
    finally:
        fast.close()
        client.close()
