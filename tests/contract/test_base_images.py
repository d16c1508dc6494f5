"""What a FROM leads to on a real engine: mirrors, images that are there, and recipes that stand in for others.

The registries named here exist nowhere, so that every machine answers the same.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.building.base_images import BaseImageConfig, BaseImages, RegistryUnreachable
from sandbox.building.images import ImageBuilder
from sandbox.types import BuildLimits, ImageBuild, ImageSpec

pytestmark = pytest.mark.docker

NOWHERE = "registry.invalid"
HUB = f"{NOWHERE}/library"


def build(builder: ImageBuilder, dockerfile: str) -> ImageBuild:
    return builder.build(ImageSpec(name="base-images", dockerfile=dockerfile), BuildLimits(timeout_s=120))


def says(client: docker.DockerClient, image: str, command: str) -> str:
    output: bytes = client.containers.run(image, ["sh", "-c", command], remove=True, network_mode="none")
    return output.decode()


@pytest.fixture
def mirrored(client: docker.DockerClient, image: str) -> Iterator[str]:
    """Name of an image that only the engine has, below `mirror.invalid/copies`."""
    name = f"mirror.invalid/copies/{uuid.uuid4().hex}:1"
    client.api.tag(image, name.rpartition(":")[0], "1")
    yield name
    client.api.remove_image(name)


@pytest.fixture(scope="module")
def tools(client: docker.DockerClient, data_folder: Path) -> BaseImages:
    """Toolchains that come from package indexes: behind a company's proxy those need its certificates."""
    bundle = os.environ.get("SSL_CERT_FILE")
    return BaseImages(client, BaseImageConfig(ca_bundle=Path(bundle) if bundle else None), data_folder)


class TestReferences:
    def test_an_image_that_the_engine_has_is_taken_as_it_is(self, bases: BaseImages, mirrored: str, image: str) -> None:
        found = bases.resolve(mirrored)
        assert found is not None
        assert (found.tag, found.digest) == (mirrored, image)

    def test_a_mirror_is_asked_before_the_registry(
        self, client: docker.DockerClient, data_folder: Path, mirrored: str, image: str
    ) -> None:
        config = BaseImageConfig(mirrors={f"{NOWHERE}/*": "mirror.invalid/copies/*"})
        name = f"{NOWHERE}/{mirrored.rpartition('/')[2]}"
        found = BaseImages(client, config, data_folder).resolve(name)
        assert found is not None
        assert (found.tag, found.digest) == (mirrored, image)

    def test_a_private_image_has_no_stand_in(self, bases: BaseImages) -> None:
        with pytest.raises(RegistryUnreachable, match=NOWHERE):
            bases.resolve(f"{NOWHERE}/acme/python:3.11")

    @pytest.mark.parametrize("reference", ["Not A Reference", "python:3-windowsservercore", "http://a/b"])
    def test_what_cannot_be_an_image_of_ours_is_none(self, bases: BaseImages, reference: str) -> None:
        assert bases.resolve(reference) is None

    def test_what_is_no_reference_is_none_also_when_the_registry_is_silent(self, bases: BaseImages) -> None:
        assert bases.resolve("debian:bookworm-slim") is not None
        assert bases.resolve("Not A Reference") is None

    def test_a_known_image_of_a_silent_registry_has_a_stand_in_that_says_so(
        self, bases: BaseImages, builder: ImageBuilder
    ) -> None:
        found = bases.resolve(f"{HUB}/debian:bookworm@sha256:{'0' * 64}")
        assert found is not None
        assert found.substituted
        assert build(builder, f"FROM {HUB}/debian:bookworm\nRUN true\n").base_substituted


class TestRecipes:
    def test_alpines_commands_work_in_its_stand_in(self, builder: ImageBuilder) -> None:
        made = build(
            builder,
            f"FROM {HUB}/alpine:3.19\n"
            "RUN apk add --no-cache --virtual .tools bash git=2.40-r0 ca-certificates && apk del .tools\n"
            "RUN addgroup -g 1234 -S people && adduser -D -H -u 1234 -G people -s /bin/ash someone\n"
            'RUN test "$(id -u someone):$(id -g someone)" = 1234:1234\n',
        )
        assert made.status == "built", made

    def test_an_unknown_package_of_alpine_ends_the_build(self, builder: ImageBuilder) -> None:
        failed = build(builder, f"FROM {HUB}/alpine:3.19\nRUN apk add --no-cache no-such-package-anywhere\n")
        assert failed.status == "failed"
        assert "no-such-package-anywhere (no such package)" in failed.log_tail

    def test_python_lies_where_everybody_copies_it_from(self, bases: BaseImages, client: docker.DockerClient) -> None:
        found = bases.resolve(f"{HUB}/python:3.11-slim")
        assert found is not None
        said = says(
            client, found.digest, "command -v python; command -v pip; ls -d /usr/local/lib/python3.*/site-packages/pip"
        )
        assert said.split()[:2] == ["/usr/local/bin/python", "/usr/local/bin/pip"]

    @pytest.mark.slow
    def test_web_pages_are_built_with_the_tools_of_javascript(
        self, tools: BaseImages, client: docker.DockerClient
    ) -> None:
        made = tools.toolchain("html")
        assert made == tools.toolchain("javascript")
        said = says(
            client, made.digest, "node --version; yarn --version && npm --version && ls /usr/local/include/node/node.h"
        )
        assert said.startswith("v20.")
        assert said.endswith("/usr/local/include/node/node.h\n")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("language", "version", "command", "answer"),
        [
            ("go", "1.22", "go version", "go version go1.22."),
            ("javascript", "18", "node --version", "v18."),
            pytest.param(
                "java", "21", "javac --version && mvn --version > /dev/null", "javac 21.", marks=pytest.mark.long
            ),
            pytest.param("python", "3.13", "python --version && pip --version", "Python 3.13.", marks=pytest.mark.long),
        ],
    )
    def test_a_toolchain_comes_in_the_version_that_is_asked_for(
        self, tools: BaseImages, client: docker.DockerClient, language: str, version: str, command: str, answer: str
    ) -> None:
        assert says(client, tools.toolchain(language, version).digest, command).startswith(answer)

    @pytest.mark.long
    def test_extensions_of_php_are_debians(self, builder: ImageBuilder) -> None:
        made = build(
            builder,
            f"FROM {HUB}/php:8.2-cli\nRUN docker-php-ext-configure zip && docker-php-ext-install -j2 pcntl zip\n"
            'RUN mv "$PHP_INI_DIR/php.ini-production" "$PHP_INI_DIR/php.ini" && php -m | grep -x pcntl\n',
        )
        assert made.status == "built", made
