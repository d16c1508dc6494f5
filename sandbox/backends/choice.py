"""Which backend serves this machine: the fast one where it can work, Docker elsewhere, and why."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Literal

from docker import DockerClient

from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import RUNTIMES, OverlayBackend, installed_runtime
from sandbox.egress.egress import Egress
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend
from sandbox.streams import engine_call
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime

logger = logging.getLogger(__name__)

Choice = Literal["auto", "docker", "overlay"]


def choose(choice: Choice, client: DockerClient, runtime: VerifierRuntime, data: Path, image_digest: str) -> Backend:
    """The backend of a choice; `auto` is `overlay` where a sandbox of `image_digest` really runs on it, else `docker`.

    Raises SandboxUnavailable when `overlay` was asked for and cannot work here.
    """
    docker = DockerBackend(client, runtime, Egress.of(data, client).trusted())
    if choice == "docker":
        return docker
    try:
        if found := _obstacles_here(client):
            raise SandboxUnavailable("; ".join(found))
        overlay = OverlayBackend(client, runtime, docker, data)
        try:
            _try(overlay, image_digest)
        except BaseException:
            overlay.close()
            raise
    except SandboxUnavailable as error:
        if choice == "overlay":
            raise SandboxUnavailable(f"the overlay backend cannot work here: {error}") from error
        logger.info("sandboxes run as containers of the engine, the overlay backend cannot work here: %s", error)
        return docker
    return overlay


def obstacles(driver: str, runtime: str, user: int) -> list[str]:
    """What keeps the overlay backend from working, as far as looking tells.

    `driver` is how the engine keeps images, `runtime` the path of an OCI runtime or empty, `user` this process's.
    """
    found = []
    if user != 0 or not sys.platform.startswith("linux"):
        found.append("it needs Linux and root")
    if not runtime:
        found.append(f"no OCI runtime is installed; looked for {' and '.join(RUNTIMES)}")
    if driver != "overlay2":
        found.append(f"the engine keeps its images with {driver}, not as layers of overlay2")
    return found


def _obstacles_here(client: DockerClient) -> list[str]:
    with engine_call("asking the engine how it keeps images"):
        driver = str(client.api.info().get("Driver"))
    return obstacles(driver, installed_runtime(), os.geteuid())


def _try(backend: Backend, image_digest: str) -> None:
    """Run one command in a sandbox. Raises SandboxUnavailable when that does not work."""
    sandbox = backend.start(image_digest, Limits(memory_mb=128, lifetime_s=60))
    try:
        result = sandbox.execute("echo works", timeout_s=20)
    finally:
        sandbox.close()
    if (result.exit_code, result.output) != (0, "works\n"):
        raise SandboxUnavailable(f"a first command ended with {result.exit_code}: {result.output[-300:]}")
