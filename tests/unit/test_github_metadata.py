"""What is kept of the metadata, and in which order repositories are taken."""

from __future__ import annotations

import pytest

from pipeline.sources.github_metadata import Found, UnreadableAnswer, execution_files, found, metadata_score
from tests.github_server.rest import Rest
from tests.github_server.world import World

GOOD = Found(
    id=1,
    node_id="R_1",
    full_name="owner/name",
    clone_url="https://hub.example.com/owner/name.git",
    language="go",
    created_at="2020-01-01T00:00:00Z",
    pushed_at="2024-01-01T00:00:00Z",
    size_kb=2_000,
    stars=1_000,
    license="MIT",
    default_branch="main",
    state="usual",
)


def test_a_whole_project_with_licence_users_and_history_scores_highest() -> None:
    assert metadata_score(GOOD) == 1.0


@pytest.mark.parametrize(
    "worse",
    [
        {"license": None},
        {"license": "NOASSERTION"},
        {"stars": 1},
        {"pushed_at": GOOD.created_at},
        {"size_kb": 1},
        {"size_kb": 900_000},
    ],
)
def test_each_thing_that_is_missing_lowers_the_score(worse: dict[str, object]) -> None:
    assert 0 < metadata_score(GOOD.model_copy(update=worse)) < 1


@pytest.mark.parametrize("state", ["archived", "fork", "mirror", "disabled", "empty"])
def test_what_is_not_to_be_built_comes_last(state: str) -> None:
    assert metadata_score(GOOD.model_copy(update={"state": state})) == 0


def test_names_that_matter_for_running_are_kept_and_no_others() -> None:
    kept = (
        *("Dockerfile", "Dockerfile.dev", "docker-compose.yml", "compose.yaml", ".devcontainer"),
        *("run.sh", "scripts", "README.md", "INSTALL.rst", "Makefile", "CMakeLists.txt", "configure.ac", "pom.xml"),
        *("build.gradle", "build.gradle.kts", "package.json", "pyproject.toml", "requirements-dev.txt", "go.mod"),
        *("package-lock.json", "yarn.lock", "poetry.lock", "composer.lock", "go.sum", "pnpm-lock.yaml", "uv.lock"),
        *(".github", ".travis.yml", "Jenkinsfile", "tox.ini"),
    )
    others = ("main.py", "index.html", "src", "logo.png", "data.csv", "LICENSE", "blocking.c")
    assert execution_files([*kept, *others]) == kept


def test_an_item_that_lacks_a_field_names_it() -> None:
    item = Rest(World(3), "http://127.0.0.1", "").item(1, "owner/name")
    assert found(item, "go").full_name == "owner/name"
    del item["node_id"]
    with pytest.raises(UnreadableAnswer, match="node_id"):
        found(item, "go")


def test_a_repository_without_any_push_has_the_time_of_its_creation() -> None:
    item = Rest(World(3), "http://127.0.0.1", "").item(1, "owner/name") | {"pushed_at": None}
    assert found(item, "go").pushed_at == item["created_at"]
