"""A file of clone addresses: what its lines may say, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.checkout import CheckoutConfig, Tree
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.sources.listing import ListingConfig, ListingSource, read_lines
from pipeline.types import Repository
from tests.github_server.objects import objects
from tests.github_server.world import World
from tests.unit.crawled_hub import Hub, hub


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path, World(9, kinds=dict.fromkeys(range(1, 10), "usual"))) as one:
        yield one


def address(place: Hub, number: int) -> str:
    return f"{place.server.address}/{place.world.first_name(number)}.git"


def source(place: Hub, *lines: str) -> ListingSource:
    (place.folder / "clones.txt").write_text("\n".join(lines))
    config = ListingConfig(file=Path("clones.txt"))
    return ListingSource(config, CheckoutConfig(), place.folder, place.folder / "clones")


def test_addresses_become_repositories_in_the_order_of_the_file(place: Hub, tmp_path: Path) -> None:
    lines = (f"{address(place, 2)}  go  # a comment", "", "# another", address(place, 1))
    listed = list(source(place, *lines).repositories(None))
    assert [one.commit for one in listed] == [objects(place.world, number).commit for number in (2, 1)]
    assert [one.language for one in listed] == ["go", "python"]
    assert listed[0].full_name == f"127.0.0.1/{place.world.first_name(2)}"
    checkout = source(place, *lines).fetch(listed[0], tmp_path / "trees")
    assert "README.md" in Tree(tmp_path / "trees" / f"{checkout.tree_sha256}.tar").files


def test_a_commit_of_the_file_stays_when_the_repository_goes_on(place: Hub, tmp_path: Path) -> None:
    commit = objects(place.world, 1).commit
    place.server.git.serve("GET", f"/{place.world.first_name(1)}.git/info/refs", "", {}, b"")
    place.world.push(1)
    listing = source(place, f"{address(place, 1)} {commit}")
    listed = list(listing.repositories(None))
    assert [one.commit for one in listed] == [commit]
    tree = Tree(tmp_path / f"{listing.fetch(listed[0], tmp_path).tree_sha256}.tar")
    assert b"Version 0." in tree.read("README.md", max_bytes=10_000)


def test_of_a_folder_all_lists_count_but_those_with_a_mistake_and_a_repository_counts_once(place: Hub) -> None:
    lists = place.folder / "lists"
    lists.mkdir()
    one, two = address(place, 1), address(place, 2)
    (lists / "b.txt").write_text(f"{one} go\n{two}\n")
    (lists / "a.txt").write_text(f"{one} c\n")
    (lists / "broken.txt").write_text("git@host:owner/name.git\n")
    (lists / "notes.md").write_text(address(place, 3))
    (lists / ".hidden.txt").write_text(address(place, 3))
    config = ListingConfig(file=Path("lists"))
    listing = ListingSource(config, CheckoutConfig(), place.folder, place.folder / "clones")
    assert [(one.locator, one.language) for one in listing.repositories(None)] == [(one, "c"), (two, "python")]


def refusal(listing: ListingSource, repository: Repository, folder: Path) -> str:
    with pytest.raises(ItemRejected) as caught:
        listing.fetch(repository, folder)
    return caught.value.failure_class


@pytest.mark.parametrize(
    ("kind", "failure_class"), [("removed", "gone"), ("blocked_451", "blocked"), ("empty", "empty_repository")]
)
def test_what_cannot_be_read_is_listed_and_refused_with_its_reason(
    place: Hub, tmp_path: Path, kind: str, failure_class: str
) -> None:
    place.world.become(1, kind)
    listing = source(place, address(place, 1), address(place, 2))
    listed = list(listing.repositories(None))
    assert len(listed) == 2 and refusal(listing, listed[0], tmp_path) == failure_class
    assert listing.fetch(listed[1], tmp_path).n_files > 0
    assert list(listing.repositories(None)) == listed


def test_what_can_be_read_again_is_listed_anew(place: Hub, tmp_path: Path) -> None:
    place.world.become(1, "removed")
    listing = source(place, address(place, 1))
    listed = next(listing.repositories(None))
    place.world.become(1, "usual")
    assert refusal(listing, listed, tmp_path) == "changed"
    assert next(listing.repositories(None)).commit == objects(place.world, 1).commit


def test_a_host_that_is_not_there_stops_nobody_else(place: Hub, tmp_path: Path) -> None:
    listing = source(place, "http://127.0.0.1:9/owner/name.git", address(place, 1))
    listed = list(listing.repositories(None))
    with pytest.raises(InfrastructureFailure):
        listing.fetch(listed[0], tmp_path)
    assert listing.fetch(listed[1], tmp_path).n_files > 0


def test_what_the_file_does_not_name_any_more_is_gone(place: Hub, tmp_path: Path) -> None:
    listed = next(source(place, address(place, 1)).repositories(None))
    assert refusal(source(place, address(place, 2)), listed, tmp_path) == "gone"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("git@host:owner/name.git", "is no address of a clone"),
        ("file:///srv/x", "is no address of a clone"),
        ("https://host.example", "is no address of a clone"),
        ("https://me:secret@host.example/owner/name.git", "holds credentials"),
        ("https://host.example/owner/name.git cobol", "'cobol' is neither a commit nor one of go, cpp"),
        (
            "https://host.example/a.git\nhttps://host.example/a.git",
            "line 2: https://host.example/a.git is listed twice",
        ),
    ],
)
def test_a_mistake_names_the_line_and_the_remedy(tmp_path: Path, line: str, named: str) -> None:
    (tmp_path / "clones.txt").write_text(line)
    with pytest.raises(ConfigurationError) as caught:
        read_lines(tmp_path / "clones.txt", "python")
    assert named in str(caught.value) and "clones.txt, line " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"sources\.listing\.file: none\.txt"):
        read_lines(tmp_path / "none.txt", "python")
