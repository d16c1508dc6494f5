"""What the registry promises, with Debian's docker-registry and two engines that share nothing else."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.backends.pulling import PullingBackend
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.pulls import RegistryUnreachable
from sandbox.building.registry import REPOSITORY, Registry
from sandbox.building.room import Room
from sandbox.engine import connect
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.contract.registries import TestRegistry, network_of, own_address, program
from tests.integration.small_engines import import_shell, shell_archive, small_engine

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def other_data(data_folder: Path) -> Iterator[Path]:
    """The data folder of a second engine."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a second engine")
    with small_engine(data_folder) as data:
        yield data


@pytest.fixture(scope="module")
def other(other_data: Path) -> Iterator[docker.DockerClient]:
    """A client of the second engine, which has no image at all."""
    client = connect(other_data)
    yield client
    client.close()


@pytest.fixture(scope="module")
def server(data_folder: Path, other_data: Path) -> Iterator[TestRegistry]:
    """A registry that both engines reach at one address."""
    networks = [network_of(data_folder), network_of(other_data)]
    server = TestRegistry(program(data_folder), other_data.parent / "registry", networks)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def make_image(client: docker.DockerClient) -> Iterator[Callable[[], str]]:
    """Makes images of the first engine that nobody has seen before; returns their ids."""
    made = []

    def make() -> str:
        name = f"registry-test-{uuid.uuid4().hex}:1"
        changes = ["LABEL from=test", "ENV WORD=kept", "WORKDIR /src"]
        archive = shell_archive(name)
        client.api.import_image_from_data(archive, repository=name.partition(":")[0], tag="1", changes=changes)
        made.append(name)
        return str(client.api.inspect_image(name)["Id"])

    yield make
    for name in made:
        client.images.remove(name, force=True)


def names(client: docker.DockerClient, image_id: str) -> list[str]:
    found = client.api.inspect_image(image_id)
    return [*found["RepoTags"], *found["RepoDigests"]]


class TestPushAndPull:
    def test_another_engine_pulls_by_digest_what_one_pushed_and_it_has_the_same_id(
        self,
        client: docker.DockerClient,
        other: docker.DockerClient,
        server: TestRegistry,
        make_image: Callable[[], str],
    ) -> None:
        image = make_image()
        reference = Registry(client, server.address).push(image)
        assert re.fullmatch(rf"{re.escape(server.address)}/{REPOSITORY}@sha256:[0-9a-f]{{64}}", reference)
        assert Registry(other, None).pull(image, reference)
        mine, theirs = (one.api.inspect_image(image) for one in (client, other))
        assert theirs["Config"] == mine["Config"]
        assert theirs["RootFS"] == mine["RootFS"]

    def test_another_engine_pulls_by_the_image_id_alone(
        self,
        client: docker.DockerClient,
        other: docker.DockerClient,
        server: TestRegistry,
        make_image: Callable[[], str],
    ) -> None:
        image = make_image()
        Registry(client, server.address).push(image)
        assert Registry(other, server.address).pull(image)
        assert other.api.inspect_image(image)["Id"] == image

    def test_a_second_push_gives_the_same_reference(
        self, client: docker.DockerClient, server: TestRegistry, make_image: Callable[[], str]
    ) -> None:
        registry, image = Registry(client, server.address), make_image()
        assert registry.push(image) == registry.push(image)

    def test_a_push_leaves_no_name_behind(
        self, client: docker.DockerClient, server: TestRegistry, make_image: Callable[[], str]
    ) -> None:
        image = make_image()
        before = names(client, image)
        Registry(client, server.address).push(image)
        assert names(client, image) == before

    def test_an_image_that_was_pulled_can_be_pushed_and_stays(
        self,
        client: docker.DockerClient,
        other: docker.DockerClient,
        server: TestRegistry,
        make_image: Callable[[], str],
    ) -> None:
        image = make_image()
        reference = Registry(client, server.address).push(image)
        registry = Registry(other, server.address)
        assert registry.pull(image, reference)
        assert registry.push(image) == reference
        assert other.api.inspect_image(image)["Id"] == image

    def test_an_image_that_is_there_is_not_asked_for(
        self, client: docker.DockerClient, make_image: Callable[[], str]
    ) -> None:
        image = make_image()
        assert Registry(client, "127.0.0.1:1").pull(image)


class TestNoSuchImage:
    def test_an_image_that_nobody_pushed_is_not_there(self, other: docker.DockerClient, server: TestRegistry) -> None:
        image = f"sha256:{uuid.uuid4().hex * 2}"
        assert not Registry(other, server.address).pull(image)
        assert not Registry(other, None).pull(image)
        assert not Registry(other, server.address).pull(image, f"{server.address}/{REPOSITORY}@{image}")

    def test_what_the_engine_lacks_cannot_be_pushed(self, other: docker.DockerClient, server: TestRegistry) -> None:
        with pytest.raises(ImageMissing):
            Registry(other, server.address).push(f"sha256:{uuid.uuid4().hex * 2}")

    @pytest.mark.parametrize("reference", ["host/name:tag", "host/name", "name@sha256:abc", "-@sha256:" + "0" * 64])
    def test_only_a_reference_by_digest_is_pulled(self, other: docker.DockerClient, reference: str) -> None:
        with pytest.raises(ValueError, match="by digest"):
            Registry(other, None).pull(f"sha256:{uuid.uuid4().hex * 2}", reference)


class TestFaults:
    def test_a_registry_that_is_down_is_named_and_serves_again_when_it_is_up(
        self,
        client: docker.DockerClient,
        other: docker.DockerClient,
        server: TestRegistry,
        make_image: Callable[[], str],
    ) -> None:
        image = make_image()
        before = names(client, image)
        server.stop()
        try:
            with pytest.raises(RegistryUnreachable, match=re.escape(server.address)):
                Registry(client, server.address).push(image)
            with pytest.raises(RegistryUnreachable, match=re.escape(server.address)):
                Registry(other, server.address).pull(image)
        finally:
            server.start()
        assert names(client, image) == before
        Registry(client, server.address).push(image)
        assert Registry(other, server.address).pull(image)

    def test_another_image_under_the_tag_is_refused_and_not_kept(
        self,
        client: docker.DockerClient,
        other: docker.DockerClient,
        server: TestRegistry,
        make_image: Callable[[], str],
    ) -> None:
        wanted, forged = make_image(), make_image()
        repository, tag = f"{server.address}/{REPOSITORY}", wanted.removeprefix("sha256:")
        client.api.tag(forged, repository, tag)
        client.api.push(repository, tag)
        client.api.remove_image(f"{repository}:{tag}")
        with pytest.raises(SandboxUnavailable, match=forged):
            Registry(other, server.address).pull(wanted)
        assert not [one for one in other.images.list(all=True) if one.id in (wanted, forged)]

    def test_another_image_behind_the_digest_is_refused(
        self,
        client: docker.DockerClient,
        other: docker.DockerClient,
        server: TestRegistry,
        make_image: Callable[[], str],
    ) -> None:
        wanted, forged = make_image(), make_image()
        reference = Registry(client, server.address).push(forged)
        with pytest.raises(SandboxUnavailable, match=forged):
            Registry(other, server.address).pull(wanted, reference)
        assert not [one for one in other.images.list(all=True) if one.id in (wanted, forged)]


def test_a_sandbox_starts_on_an_image_that_only_the_registry_has(
    client: docker.DockerClient,
    other: docker.DockerClient,
    other_data: Path,
    server: TestRegistry,
    make_image: Callable[[], str],
) -> None:
    image = make_image()
    below = DockerBackend(other, VerifierRuntime(other, BaseImages(other, BaseImageConfig(), other_data)))
    room = Room(other, other_data)
    backend = PullingBackend(below, Registry(other, server.address), room.touch)
    limits = Limits(memory_mb=256, lifetime_s=60)
    with pytest.raises(ImageMissing):
        backend.start(image, limits)
    Registry(client, server.address).push(image)
    box = backend.start(image, limits)
    try:
        assert box.execute("echo $WORD", timeout_s=20).output == "kept\n"
    finally:
        box.close()


def test_a_configured_registry_is_reached_by_the_only_way_out_of_an_engine_and_no_other_one_is(
    data_folder: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address but its loopback device's")
    networks = [Path("/proc/self/ns/net")]
    configured, other = (TestRegistry(program(data_folder), tmp_path / name, networks, host) for name in ("a", "b"))
    try:
        configured.start()
        other.start()
        with small_engine(data_folder, registry=configured.address) as data:
            client = connect(data)
            image = import_shell(client)
            registry = Registry(client, configured.address)
            reference = registry.push(image)
            with pytest.raises(RegistryUnreachable, match=r"when it starts: infra/bootstrap\.sh down"):
                Registry(client, other.address).push(image)
            client.images.remove(image, force=True)
            assert registry.pull(image, reference)
            assert client.api.inspect_image(image)["Id"] == image
            client.close()
    finally:
        configured.stop()
        other.stop()
