"""Which Dockerfiles of a repository are tried, in which order, and how each is meant to be built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig, Member, Tree, collect, store
from pipeline.own_dockerfile import OwnDockerfile, extend, find_all
from pipeline.types import Repository

Make = Callable[[dict[str, str]], Tree]
COPY_ALL = "FROM debian\nCOPY . /srv\n"


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A stored tree of these files."""

    def of(files: dict[str, str]) -> Tree:
        repository = Repository(source="local", full_name="a/b", commit="1", language="python", locator="b")
        contents = {name: text.encode() for name, text in files.items()}
        members = [Member(name, "file", len(data), read=lambda data=data: data) for name, data in contents.items()]  # type: ignore[misc]
        checkout = store(repository, collect(members, CheckoutConfig()), tmp_path)
        return Tree(tmp_path / f"{checkout.tree_sha256}.tar")

    return of


def paths(tree: Tree) -> list[str]:
    return [own.path for own in find_all(tree)]


def written(tree: Tree) -> str:
    return extend(tree, find_all(tree)[0], "/workspace/b", "true")


def test_the_likeliest_come_first_and_at_most_three_are_tried(make: Make) -> None:
    names = ["Dockerfile.dev", ".devcontainer/Dockerfile", "backend/Dockerfile", "docker/Dockerfile", "Dockerfile"]
    tree = make(dict.fromkeys(names, COPY_ALL))
    assert paths(tree) == ["Dockerfile", "docker/Dockerfile", "backend/Dockerfile"]


def test_a_variant_for_working_on_the_project_comes_after_the_others(make: Make) -> None:
    names = ["Dockerfile.debian", "Dockerfile.test", ".devcontainer/Dockerfile"]
    assert paths(make(dict.fromkeys(names, COPY_ALL))) == names


@pytest.mark.parametrize(
    "name",
    ["Dockerfile.dockerignore", "Dockerfile.j2", "Dockerfile.windows", "Dockerfile.arm64v8", "nodockerfile"],
)
def test_what_is_no_dockerfile_for_this_machine_is_passed_over(make: Make, name: str) -> None:
    assert paths(make({name: COPY_ALL})) == []


def test_one_that_copies_what_is_not_there_comes_late(make: Make) -> None:
    tree = make({"Dockerfile": "FROM debian\nCOPY dist/program /\n", "build/Dockerfile": COPY_ALL})
    assert paths(tree) == ["build/Dockerfile", "Dockerfile"]


def test_a_folder_that_is_a_project_is_the_context_of_its_dockerfile(make: Make) -> None:
    tree = make({"backend/Dockerfile": COPY_ALL, "backend/package.json": "{}", "package.json": "{}"})
    assert find_all(tree) == [OwnDockerfile("backend/Dockerfile", "backend")]
    assert "COPY backend /srv\n" in written(tree)


def test_the_root_is_the_context_of_a_dockerfile_in_a_folder_of_its_own(make: Make) -> None:
    assert find_all(make({"docker/Dockerfile": COPY_ALL, "app.py": ""})) == [OwnDockerfile("docker/Dockerfile")]


def test_the_folder_above_can_be_the_context(make: Make) -> None:
    tree = make({"service/docker/Dockerfile": "FROM debian\nCOPY app.py /\n", "service/app.py": ""})
    assert find_all(tree)[0].context == "service"


def test_bind_mounts_are_looked_for_below_the_context(make: Make) -> None:
    step = "RUN --mount=type=bind,source=package.json,target=package.json --mount=type=cache,target=/c npm ci"
    tree = make({"web/Dockerfile": f"FROM node\nCOPY index.js /\n{step}\n", "web/index.js": "", "web/package.json": ""})
    assert "RUN --mount=type=bind,source=web/package.json,target=package.json --mount=type=cache" in written(tree)


COMPOSE = """
services:
  app:
    build:
      context: ..
      dockerfile: docker/app/Dockerfile
      target: production
      args:
        VERSION: "${VERSION:-1.5}"
        TOKEN: ${TOKEN}
  other:
    build: ./web
    image: x
"""


def test_a_compose_file_says_context_stage_and_arguments(make: Make) -> None:
    text = (
        "FROM debian AS base\nARG VERSION\nARG TOKEN\nCOPY . /x\nFROM base AS production\nRUN make\nFROM base AS test\n"
    )
    tree = make({"docker/compose.yml": COMPOSE, "docker/app/Dockerfile": text})
    assert find_all(tree)[0] == OwnDockerfile("docker/app/Dockerfile", "", "production", (("VERSION", "1.5"),))
    assert "FROM debian AS base\nARG VERSION=1.5\nARG TOKEN\nCOPY . /x\nFROM base AS production\nRUN make\n" in written(
        tree
    )
    assert "AS test" not in written(tree)


@pytest.mark.parametrize(
    "text",
    ["services: [", "- a\n- b\n", "services:\n  a: 1\n", "services: {a: {build: {context: ../..}}}", "\x00"],
)
def test_a_compose_file_that_says_nothing_useful_is_passed_over(make: Make, text: str) -> None:
    assert find_all(make({"compose.yaml": text, "Dockerfile": COPY_ALL})) == [OwnDockerfile("Dockerfile")]


def test_an_argument_without_a_value_gets_a_safe_one(make: Make) -> None:
    text = "ARG TAG\nARG NAME\nFROM debian:${TAG}\nARG UID\nARG GID=5\nARG OTHER\nRUN useradd\n"
    assert written(make({"Dockerfile": text})).startswith(
        "ARG TAG=latest\nARG NAME\nFROM debian:${TAG}\nARG UID=1000\nARG GID=5\nARG OTHER\nRUN useradd\n"
    )


def test_a_value_that_is_given_for_all_stages_stays(make: Make) -> None:
    text = "ARG UID=501\nFROM debian\nARG UID\nRUN useradd\n"
    assert written(make({"Dockerfile": text})).startswith(text)


@pytest.mark.parametrize("bare", ["scratch", "registry.example/distroless/static", "busybox:1"])
def test_a_last_stage_without_a_shell_is_put_on_the_one_whose_results_it_takes(make: Make, bare: str) -> None:
    last = "COPY --from=0 --chown=nonroot:nonroot /a /a\nUSER 1\n"
    text = f"FROM golang\nRUN make\nFROM debian AS other\nFROM {bare} AS end\n{last}"
    assert written(make({"Dockerfile": text})).startswith(
        "FROM golang AS stage-0\nRUN make\nFROM debian AS other\nFROM stage-0 AS end\nCOPY --from=0 /a /a\nUSER 1\n"
    )
