"""The simulated hub itself: it counts, pages and refuses as the real one does, and git takes what it serves."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from github import Auth, Github, GithubException, UnknownObjectException

from tests.github_server.objects import objects
from tests.github_server.search import search
from tests.github_server.world import KINDS, LANGUAGES, World, stamp
from tests.unit.crawled_hub import Hub, hub


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path, World(3_000, kinds={number: kind for number, kind in enumerate(KINDS, 1)})) as one:
        yield one


@pytest.fixture
def api(place: Hub) -> Iterator[Github]:
    with Github(auth=Auth.Token("one"), base_url=place.server.base_url, retry=0, seconds_between_requests=0) as client:
        yield client


def test_the_world_is_a_function_of_its_seed() -> None:
    assert World(500, 3).truth() == World(500, 3).truth() != World(500, 4).truth()


def test_search_counts_as_counting_one_by_one_does() -> None:
    world, rng = World(2_000), random.Random(1)
    for _ in range(50):
        language = rng.randrange(len(LANGUAGES))
        first = int(world.created[rng.randrange(1_000)])
        last = first + rng.randrange(10**8)
        low, high = sorted((rng.randrange(2_000), rng.randrange(2_000)))
        query = f"language:{LANGUAGES[language]} created:{stamp(first)}..{stamp(last)} size:{low}..{high}"
        expected = [
            number
            for number in range(1, 2_001)
            if world.language[number - 1] == language
            and world.kind_of(number) != "fork"
            and first <= world.created[number - 1] <= last
            and low <= world.size[number - 1] <= high
        ]
        found = search(world, query, 1, 100)
        assert (found.total, found.ids) == (len(expected), expected[:100])


@pytest.mark.parametrize(
    ("query", "total"),
    [
        ("stars:>=0", 3),
        ("stars:>0 stars:<=9", 1),
        ("pushed:>=2020-01-02", 2),
        ("pushed:2020-01-01", 1),
        ("pushed:*..2020-01-01T11:59:59Z", 0),
        ("fork:only", 0),
        ("archived:true", 1),
    ],
)
def test_qualifiers_have_the_bounds_that_the_hub_gives_them(query: str, total: int) -> None:
    world = World(3, kinds={1: "usual", 2: "archived", 3: "usual"})
    noon = 1_577_880_000  # 2020-01-01T12:00:00Z
    world.pushed[:] = [noon, noon + 86_400, noon + 10 * 86_400]
    world.stars[:] = [0, 9, 10]
    assert search(world, query, 1, 100).total == total


def test_pages_end_at_the_cap_and_the_raw_total_does_not(place: Hub, api: Github) -> None:
    status, _, text = api.requester.requestJson("GET", "/search/repositories", {"q": "stars:>=0", "per_page": 100})
    assert status == 200 and f'"total_count": {sum(place.world.kind != KINDS.index("fork"))}' in text
    assert api.search_repositories("stars:>=0").totalCount == 1_000  # PyGithub's own count
    with pytest.raises(GithubException) as caught:
        api.requester.requestJsonAndCheck(
            "GET", "/search/repositories", {"q": "stars:>=0", "per_page": 100, "page": 11}
        )
    assert caught.value.status == 422


def test_the_links_of_pages_lead_from_one_to_the_next(place: Hub) -> None:
    url: str | None = f"{place.server.base_url}/search/repositories?q=language:C&per_page=50"
    seen: list[int] = []
    while url is not None:
        answer = requests.get(url, headers={"Authorization": "token one", "User-Agent": "t"}, timeout=10)
        seen += [item["id"] for item in answer.json()["items"]]
        url = answer.links.get("next", {}).get("url")
    assert len(seen) == len(set(seen)) == answer.json()["total_count"] > 100
    assert parse_qs(urlsplit(answer.links["first"]["url"]).query)["page"] == ["1"]


def test_repositories_answer_by_their_kind(place: Hub, api: Github) -> None:
    by_kind = {kind: number for number, kind in enumerate(KINDS, 1)}
    assert api.get_repo(by_kind["usual"]).full_name == place.world.full_name(1)
    assert api.get_repo(place.world.first_name(by_kind["renamed"])).full_name.endswith("-renamed")
    with pytest.raises(UnknownObjectException):
        api.get_repo(by_kind["removed"])
    for kind, status in (("blocked_451", 451), ("blocked_403", 403)):
        with pytest.raises(GithubException) as caught:
            api.get_repo(by_kind[kind])
        assert caught.value.status == status
    with pytest.raises(GithubException) as caught:
        api.get_repo(by_kind["empty"]).get_git_tree("main")
    assert caught.value.status == 409


def test_trees_contents_and_languages_are_those_of_the_commit(place: Hub, api: Github) -> None:
    repository, found = api.get_repo(1), objects(place.world, 1)
    assert {entry.path for entry in repository.get_git_tree("main", recursive=True).tree} >= set(found.blobs)
    assert repository.get_contents("README.md").decoded_content == found.blobs["README.md"]  # type: ignore[union-attr]
    assert repository.get_commit("main").raw_data["sha"] == found.commit
    assert place.world.language_of(1) in repository.get_languages()
    place.server.rest.truncated.add(1)
    assert repository.get_git_tree("main", recursive=True).raw_data["truncated"] is True


def test_the_rate_limit_says_what_is_left_and_costs_nothing(place: Hub, api: Github) -> None:
    place.limits.budgets["core"] = (5, 3600.0)
    for _ in range(3):
        api.get_repo(1)
    assert [api.get_rate_limit().resources.core.remaining for _ in range(2)] == [2, 2]


def test_more_nodes_than_a_request_may_name_are_refused(api: Github) -> None:
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }"
    _, _, text = api.requester.requestJson(
        "POST", api.requester.graphql_url, input={"query": query, "variables": {"ids": ["x"] * 101}}
    )
    assert "You may not provide more than 100" in text


@pytest.mark.parametrize("kind", ["usual", "submodule", "lfs", "export_ignore", "renamed"])
def test_git_finds_nothing_wrong_with_what_is_served(place: Hub, tmp_path: Path, kind: str) -> None:
    number = KINDS.index(kind) + 1
    url = f"{place.server.address}/{place.world.first_name(number)}.git"
    clone = str(tmp_path / "clone")
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", url, clone], check=True, capture_output=True)
    head = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert head.stdout.strip() == objects(place.world, number).commit
    fsck = ["git", "-C", clone, "-c", "fsck.missingNameBeforeEmail=error", "fsck", "--strict"]
    assert subprocess.run(fsck, check=True, capture_output=True).stderr == b""
