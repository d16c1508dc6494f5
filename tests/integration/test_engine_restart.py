"""An engine that ends and comes back while sandboxes run: nothing is concluded, nothing is left, work goes on."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import OWNER, connect
from sandbox.errors import SandboxUnavailable
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.integration.engines import bootstrap

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_mb=256, lifetime_s=300)


def import_shell(client: docker.DockerClient) -> str:
    """Digest of an image with this machine's own bash and sleep, and their libraries."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
        libraries = set()
        for program, name in (("bash", "bin/sh"), ("bash", "bin/bash"), ("sleep", "bin/sleep")):
            path = Path("/usr/bin", program)
            tar.add(path, name)
            listing = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
            libraries |= set(re.findall(r"(/\S+) \(0x", listing))
        for library in sorted(libraries):
            tar.add(library)
    client.api.import_image_from_data(archive.getvalue(), repository="shell", tag="1")
    return str(client.images.get("shell:1").id)


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
