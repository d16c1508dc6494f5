"""What the contract suites run against: the real engine of the project, and images made from our recipes alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

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


@pytest.fixture
def unique(client: docker.DockerClient) -> Iterator[str]:
    """A word that no image knows yet; images with it as their label `test` are removed."""
    word = f"word{uuid.uuid4().hex}"
    yield word
    while left := client.images.list(all=True, filters={"label": f"test={word}"}):
        assert any([_removed(client, str(image.id)) for image in left]), f"{left} cannot be removed"


def _removed(client: docker.DockerClient, image: str) -> bool:
    """Whether it is gone: not as long as another one was made from it, and the engine lists them in any order."""
    try:
        client.images.remove(image, force=True)
    except APIError as error:
        if error.status_code not in (404, 409):
            raise
        return error.status_code == 404
    return True


@pytest.fixture(scope="session", params=["overlay", "docker"])
def backend(
    request: pytest.FixtureRequest, client: docker.DockerClient, bases: BaseImages, data_folder: Path, image: str
) -> Iterator[Backend]:
    """The backend under test: every test runs on each."""
    backend = choose(request.param, client, VerifierRuntime(client, bases), data_folder, image)
    yield backend
    if isinstance(backend, OverlayBackend):
        backend.close()
