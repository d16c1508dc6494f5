"""What the contract suites run against: the real engine of the project, and images made from our recipes alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.backends.choice import choose
from sandbox.backends.overlay import OverlayBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.egress.egress import Egress
from sandbox.engine import connect
from sandbox.protocol import Backend
from sandbox.verifier.verifier_runtime import VerifierRuntime


@pytest.fixture(scope="session")
def client(data_folder: Path) -> Iterator[docker.DockerClient]:
    """A client of the engine."""
    client = connect(data_folder)
    yield client
    client.close()


@pytest.fixture(scope="session")
def bases(client: docker.DockerClient, data_folder: Path) -> BaseImages:
    """Base images as a fresh machine makes them."""
    return BaseImages(client, BaseImageConfig(), data_folder)


@pytest.fixture(scope="session")
def builder(client: docker.DockerClient, bases: BaseImages, data_folder: Path) -> ImageBuilder:
    """Builds on those bases."""
    return ImageBuilder(client, bases, Egress.of(data_folder, client))


@pytest.fixture(scope="session")
def image(bases: BaseImages) -> str:
    """Digest of the slim base."""
    return bases.base().digest


@pytest.fixture(scope="session", params=["overlay", "docker"])
def backend(
    request: pytest.FixtureRequest, client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str
) -> Iterator[Backend]:
    """The backend under test: every test runs on each."""
    backend = choose(request.param, client, VerifierRuntime(client, bases), data_folder, image)
    yield backend
    if isinstance(backend, OverlayBackend):
        backend.close()
