"""Fixture repositories become images, in the engine of this machine. What is written into a Dockerfile: tests/unit."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

from pipeline.checkout import CheckoutConfig, Tree, collect, store
from pipeline.directory_tree import walk
from pipeline.dockerfiles import candidates
from pipeline.repairs import repaired
from pipeline.types import Language, Repository
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.building.images import ImageBuilder
from sandbox.egress.egress import Egress
from sandbox.engine import connect
from sandbox.types import BuildLimits, ImageBuild

pytestmark = pytest.mark.docker
REPOSITORIES = Path(__file__).resolve().parents[1] / "data" / "repositories"

Attempts = Callable[[str, Language], Iterator[tuple[str, ImageBuild]]]


@pytest.fixture(scope="module")
def client(data_folder: Path) -> docker.DockerClient:
    return connect(data_folder)


@pytest.fixture
def attempts(client: docker.DockerClient, data_folder: Path, tmp_path: Path) -> Iterator[Attempts]:
    """Builds the candidates of a fixture repository, repairs after them. The base stands in for every toolchain."""
    bases = BaseImages(client, BaseImageConfig(), data_folder)
    builder = ImageBuilder(client, bases, Egress.of(data_folder, client))
    made: list[str] = []

    def of(name: str, language: Language) -> Iterator[tuple[str, ImageBuild]]:
        # A name of its own gives each test images of its own, which it may remove.
        full_name = f"owner/{name}-{uuid4().hex[:8]}"
        repository = Repository(source="local", full_name=full_name, commit="1", language=language, locator=name)
        checkout = store(repository, collect(walk(REPOSITORIES / name), CheckoutConfig()), tmp_path)
        tree = tmp_path / f"{checkout.tree_sha256}.tar"

        def toolchain(language: Language, version: str | None = None) -> str:
            return bases.base().tag

        waiting = deque(candidates(repository, tree, toolchain))
        while waiting:
            candidate = waiting.popleft()
            build = builder.build(candidate.spec, BuildLimits(timeout_s=120 if "endless" not in name else 3))
            made.extend([build.digest] if build.digest else [])
            yield candidate.strategy, build
            better = None if build.digest else repaired(candidate, build, Tree(tree), toolchain)
            waiting.extendleft([better] if better else [])

    yield of
    for digest in made:
        client.images.remove(digest, force=True)


def run(client: docker.DockerClient, build: ImageBuild, command: str) -> str:
    """What `command` prints in the image, offline."""
    assert build.digest is not None, build.log_tail
    output: bytes = client.containers.run(build.digest, ["bash", "-c", command], network_mode="none", remove=True)
    return output.decode()


def test_own_dockerfile_gives_an_image_with_the_tree_and_what_was_built_in_it(
    attempts: Attempts, client: docker.DockerClient
) -> None:
    strategy, build = next(attempts("own-dockerfile", "c"))
    assert strategy == "own_dockerfile"
    said = run(client, build, "pwd | cut -d- -f1,2; id -u; ls -A; tally fruit.txt; command -v git python3 | wc -l")
    assert said.splitlines() == [
        "/workspace/own-dockerfile",
        "0",
        *[".dockerignore", "Dockerfile", "README.md", "built", "fruit.txt", "tally.sh"],
        *["2 pear", "1 plum"],
        "2",
    ]


def test_template_builds_where_the_own_dockerfile_fails(attempts: Attempts, client: docker.DockerClient) -> None:
    (first, failed), (second, build) = attempts("failing-dockerfile", "c")
    assert (first, failed.status, failed.failure_class) == ("own_dockerfile", "failed", "build_failed")
    assert "no flux capacitor on this machine" in failed.log_tail
    assert second == "template"
    assert run(client, build, "greet world && make && ./greet again").splitlines()[-1] == "hello again"


def test_template_leaves_the_tree_as_it_was_cloned(attempts: Attempts, client: docker.DockerClient) -> None:
    *_, (_, build) = attempts("failing-dockerfile", "c")
    listed = run(client, build, "find . -type f | sort && command -v greet").split()
    cloned = sorted(f"./{path.name}" for path in (REPOSITORIES / "failing-dockerfile").iterdir())
    assert listed == [*cloned, "/usr/local/bin/greet"]


def test_repair_installs_the_command_that_a_build_misses(attempts: Attempts, client: docker.DockerClient) -> None:
    (first, failed), (second, build) = itertools.islice(attempts("missing-command", "c"), 2)
    assert (first, failed.status) == ("template", "failed")
    assert "bc: not found" in failed.log_tail
    assert second == "repaired"
    assert run(client, build, "sum-of-two && ls") == "5\nMakefile\nREADME.md\n"


def test_dockerfile_that_never_ends_is_stopped_at_the_limit(attempts: Attempts) -> None:
    _, build = next(attempts("endless-dockerfile", "c"))
    assert (build.status, build.failure_class) == ("failed", "build_timeout")
    assert "waiting for a server that never comes" in build.log_tail
    assert build.seconds < 15
