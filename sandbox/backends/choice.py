"""Which backend serves this machine: the fast one where it can work, Docker elsewhere, and why."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal

from docker import DockerClient

from sandbox.backends.docker import DockerBackend
from sandbox.backends.overlay import OverlayBackend, find_runtime
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
    docker = DockerBackend(client, runtime)
    if choice == "docker":
        return docker
    try:
        if reason := obstacle(client):
            raise SandboxUnavailable(reason)
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


def obstacle(client: DockerClient) -> str:
    """What keeps the overlay backend from working here, as far as looking tells; empty when nothing does.

    Raises SandboxUnavailable when the engine does not answer.
    """
    if os.uname().sysname != "Linux" or os.geteuid() != 0:
        return "it needs Linux and root"
    try:
        find_runtime()
    except SandboxUnavailable as error:
        return str(error)
    with engine_call("asking the engine how it keeps images"):
        driver = client.api.info().get("Driver")
    return "" if driver == "overlay2" else f"the engine keeps its images with {driver}, not as layers of overlay2"


def _try(backend: Backend, image_digest: str) -> None:
    """Run one command in a sandbox. Raises SandboxUnavailable when that does not work."""
    sandbox = backend.start(image_digest, Limits(memory_mb=128, lifetime_s=60))
    try:
        result = sandbox.execute("echo works", timeout_s=20)
    finally:
        sandbox.close()
    if (result.exit_code, result.output) != (0, "works\n"):
        raise SandboxUnavailable(f"a first command ended with {result.exit_code}: {result.output[-300:]}")
