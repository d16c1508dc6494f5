"""What becomes of the repositories of a hub: what is listed, what is fetched, and the reason of what is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from assets.resources import open_workshop
from pipeline.checkout import CheckoutConfig, Tree
from pipeline.crawl_report import crawl_report
from pipeline.errors import InfrastructureFailure, ItemRejected
from pipeline.rows import checkout_of, checkout_row
from pipeline.schemas import TABLES, Row, to_arrow, to_rows
from pipeline.sources.github import GithubSource
from pipeline.stages.fetching import fetch
from pipeline.stages.listing import list_day
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import LANGUAGES, Repository, Submodule
from tests.github_server.limits import Fault
from tests.github_server.objects import objects, submodule_of
from tests.github_server.world import KINDS, World
from tests.unit.crawled_hub import Hub, hub

DAY = "2026-11-01"
BY_KIND = {kind: number for number, kind in enumerate(KINDS, 1)}
"""The first repositories of the hub are one of each kind, in this order."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Hub]:
    kinds = {number: KINDS[number - 1] if number <= len(KINDS) else "usual" for number in range(1, 31)}
    with hub(tmp_path / "crawl", World(30, kinds=kinds)) as one:
        one.world.size[:] = [0 if kind == "empty" else 100 for kind in kinds.values()]
        yield one


def listed(source: GithubSource) -> dict[int, Repository]:
    """By the hub's id."""
    found = list(source.repositories(None))
    assert len({one.repository_id for one in found}) == len(found)
    return {int(one.locator.split("/")[1]): one for one in found}


def night(place: Hub, store: Store, source: GithubSource, day: str = DAY) -> list[Row]:
    """Listing and fetching of one day; the rows of what is new."""
    before = {str(row["repository_id"]) for row in to_rows(store.current("repositories"))}
    chosen = list_day(store, [source], day, LANGUAGES, today=day)
    fetch(store, chosen, [source], store.root / "sources", Options(workers=2))
    rows = to_rows(store.current("repositories"))
    return [row for row in rows if str(row["repository_id"]) not in before]


def test_every_kind_of_repository_has_a_row_with_its_reason(place: Hub, tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    rows = night(place, store, place.source(qualifiers="fork:true"))
    found = {int(str(row["locator"]).split("/")[1]): row["failure_class"] for row in rows}
    assert len(found) == 30
    assert {kind: found[number] for kind, number in BY_KIND.items()} == {
        "usual": None,
        "archived": "archived",
        "fork": "fork",
        "mirror": "mirror",
        "empty": "empty_repository",
        "renamed": None,
        "removed": "gone",
        "blocked_451": "blocked",
        "blocked_403": "blocked",
        "submodule": None,
        "lfs": None,
        "export_ignore": None,
    }
    assert {found[number] for number in range(len(KINDS) + 1, 31)} == {None}
    reasons = {int(str(row["locator"]).split("/")[1]): str(row["reason"]) for row in rows}
    assert "(451 dmca)" in reasons[BY_KIND["blocked_451"]] and "(404)" in reasons[BY_KIND["removed"]]


def test_what_is_skipped_is_a_setting(place: Hub, tmp_path: Path) -> None:
    source = place.source(skip=["mirror"])
    checkout = source.fetch(listed(source)[BY_KIND["archived"]], tmp_path)
    assert checkout.n_files > 0


def test_the_tree_is_that_of_the_commit_on_the_row(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repository = listed(source)[BY_KIND["export_ignore"]]
    found = objects(place.world, BY_KIND["export_ignore"])
    assert repository.commit == found.commit and repository.full_name == place.world.full_name(BY_KIND["export_ignore"])
    tree = Tree(tmp_path / f"{source.fetch(repository, tmp_path).tree_sha256}.tar")
    # What `export-ignore` names is there as well.
    assert {name: tree.read(name, max_bytes=10**6) for name in tree.files} == found.blobs


def test_submodules_are_part_of_the_tree_and_their_commits_are_recorded(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    checkout = source.fetch(listed(source)[BY_KIND["submodule"]], tmp_path)
    tree = Tree(tmp_path / f"{checkout.tree_sha256}.tar")
    child = submodule_of(place.world, BY_KIND["submodule"])
    assert tree.read("vendor/child/README.md", max_bytes=10**6) == objects(place.world, child).blobs["README.md"]
    address = f"{place.server.address}/{place.world.first_name(child)}.git"
    recorded = Submodule(path="vendor/child", url=address, commit=objects(place.world, child).commit)
    assert checkout.submodules == (recorded,)
    row = checkout_row(listed(source)[BY_KIND["submodule"]], checkout)
    assert checkout_of(to_rows(to_arrow(TABLES["repositories"], [row]))[0]) == checkout


def test_lfs_pointers_and_new_names_are_noted(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repositories = listed(source)
    pointers = source.fetch(repositories[BY_KIND["lfs"]], tmp_path).warnings
    assert "Git LFS pointers instead of their files (1): data/model.bin" in pointers
    renamed = source.fetch(repositories[BY_KIND["renamed"]], tmp_path)
    assert repositories[BY_KIND["renamed"]].full_name.endswith("-renamed")
    assert f"renamed: search knew it as {place.world.first_name(BY_KIND['renamed'])}" in renamed.warnings


def test_the_files_that_matter_for_running_are_kept_with_the_metadata(place: Hub) -> None:
    source = place.source()
    listed(source)
    rows = place.index()._rows("SELECT id, execution_files FROM repositories WHERE execution_files IS NOT NULL")
    kept = {number: json.loads(str(files)) for number, files in rows}
    assert "Makefile" in kept[1] and "README.md" in kept[1]
    assert ("Dockerfile" in kept[1]) == ("Dockerfile" in objects(place.world, 1).blobs)
    assert not any(name.startswith(("main.", "index.")) for files in kept.values() for name in files)


@pytest.mark.parametrize(
    ("kind", "failure_class"), [("removed", "gone"), ("blocked_451", "blocked"), ("blocked_403", "blocked")]
)
def test_what_goes_after_it_was_listed_is_refused(place: Hub, tmp_path: Path, kind: str, failure_class: str) -> None:
    source = place.source()
    repository = listed(source)[1]
    place.world.become(1, kind)
    with pytest.raises(ItemRejected) as caught:
        source.fetch(repository, tmp_path)
    assert caught.value.failure_class == failure_class


def test_what_is_renamed_after_it_was_listed_is_fetched_and_keeps_its_row(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    before = listed(source)
    place.world.rename(1, "other")
    address = f"{place.server.address}/{place.world.full_name(1)}.git"
    assert f"renamed: it is at {address} now" in source.fetch(before[1], tmp_path).warnings
    place.world.pass_time(60)
    assert listed(source) == before


def test_a_commit_that_is_not_there_any_more_is_refused_as_changed(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repository = listed(source)[1]
    place.world.push(1)
    with pytest.raises(ItemRejected) as caught:
        source.fetch(repository, tmp_path)
    assert caught.value.failure_class == "changed"


def test_a_newer_commit_does_not_change_what_is_fetched(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repository = listed(source)[1]
    first = source.fetch(repository, tmp_path)
    place.world.push(1)
    assert source.fetch(repository, tmp_path) == first


def test_what_could_not_be_read_and_can_be_now_is_listed_anew(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repository = listed(source)[BY_KIND["removed"]]
    place.world.become(BY_KIND["removed"], "usual")
    with pytest.raises(ItemRejected) as caught:
        source.fetch(repository, tmp_path)
    assert caught.value.failure_class == "changed"
    again = listed(source)[BY_KIND["removed"]]
    assert again.commit == objects(place.world, BY_KIND["removed"]).commit
    assert source.fetch(again, tmp_path).n_files > 0


@pytest.mark.parametrize(
    ("limits", "failure_class"),
    [
        ({"max_file_bytes": 1_000_000, "max_bytes": 2_000_000}, "file_too_large"),
        ({"max_bytes": 2_000_000}, "too_large"),
        ({"max_bytes": 2_000_000, "max_files": 3}, "too_many_files"),
    ],
)
def test_what_is_too_large_by_its_tree_is_not_cloned(
    place: Hub, tmp_path: Path, limits: dict[str, int], failure_class: str
) -> None:
    place.world.size[0] = 3_000
    source = place.source(CheckoutConfig(**limits))
    repository = listed(source)[1]
    with pytest.raises(ItemRejected) as caught:
        source.fetch(repository, tmp_path)
    assert caught.value.failure_class == failure_class
    assert place.server.counts["git"] == 0


def test_a_tree_that_the_hub_cuts_has_too_many_files(place: Hub, tmp_path: Path) -> None:
    place.world.size[0] = 1_000_000
    place.server.rest.truncated.add(1)
    source = place.source()
    repository = listed(source)[1]
    with pytest.raises(ItemRejected) as caught:
        source.fetch(repository, tmp_path)
    assert caught.value.failure_class == "too_many_files"


def test_a_hub_that_hands_nothing_out_is_a_fault_of_the_infrastructure(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repository = listed(source)[1]
    place.limits.faults.append(Fault(r"\.git/info/refs", 502, {"Content-Type": "text/plain"}, "bad", times=-1))
    with pytest.raises(InfrastructureFailure, match="502"):
        source.fetch(repository, tmp_path)
    assert list(tmp_path.glob("**/clones/*")) == []


def test_why_a_repository_is_gone_is_asked_for_again_at_no_cost(place: Hub, tmp_path: Path) -> None:
    source = place.source()
    repository = listed(source)[1]
    place.limits.faults.append(Fault(r"\.git/info/refs", 404, {"Content-Type": "text/plain"}, "no", times=-1))
    for _ in range(3):
        with pytest.raises(InfrastructureFailure, match="does not hand it out"):
            source.fetch(repository, tmp_path)
    assert [status for _, path, status in place.server.requests if "/repositories/1" in path] == [200, 304, 304]


def test_the_best_of_each_language_are_listed(place: Hub) -> None:
    few = listed(place.source(per_language=1))
    assert len({one.language for one in few.values()}) == len(few)
    assert not any(place.world.kind_of(number) in ("archived", "mirror", "empty") for number in few)
    more = listed(place.source(per_language=2))
    assert few.items() <= more.items() and len(more) > len(few)


def test_since_leaves_out_what_was_pushed_before(place: Hub) -> None:
    source = place.source()
    listed(source)
    place.world.pass_time(86_400)
    place.world.push(1)
    found = list(source.repositories(datetime(2026, 11, 1, 12, tzinfo=UTC)))
    assert [one.locator for one in found] == ["repositories/1"]


def test_a_night_takes_only_what_changed(place: Hub, tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    source = place.source()
    night(place, store, source)
    place.world.pass_time(86_400)
    for number in (1, 20, BY_KIND["empty"]):
        place.world.push(number)
    added = place.world.add("Go")
    changed = {1, 20, BY_KIND["empty"], added}
    requests, asked = len(place.server.requests), place.server.counts["graphql"]
    rows = night(place, store, source, "2026-11-02")
    assert {int(str(row["locator"]).split("/")[1]) for row in rows} == changed
    assert {row["commit"] for row in rows} == {objects(place.world, number).commit for number in changed}
    assert {row["failure_class"] for row in rows} == {None}
    # One request for each language, one for the commits, three for each clone.
    assert place.server.counts["graphql"] == asked + 1
    assert len(place.server.requests) - requests <= 1 + 8 + 1 + 3 * len(changed)


def test_a_token_is_sent_to_an_enterprise_server_and_stays_off_every_row(place: Hub, tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    rows = night(place, store, place.source(languages=["go"]))
    assert place.server.secrets_seen or not rows
    assert not any(list(tmp_path.rglob("clones/*")))
    assert "x-access-token" not in json.dumps(rows, default=str)


def test_the_report_says_how_far_the_crawl_is(place: Hub, tmp_path: Path) -> None:
    assert crawl_report(tmp_path / "none").hubs == ()
    listed(place.source(per_language=1))
    (report,) = crawl_report(place.folder).hubs
    assert report.found == len(place.truth()) and report.pinned == len({one for one in report.by_language})
    assert (report.questions_done, report.questions_open, report.missing) == (len(LANGUAGES), 0, 0)
    assert str(report.up_to_date).startswith("2026-11-01T00:") and report.by_state["archived"].found == 1


def test_the_report_of_a_crawl_that_was_interrupted_names_no_time(place: Hub) -> None:
    place.limits.faults.append(Fault("language:", 502, times=-1))
    with pytest.raises(InfrastructureFailure):
        listed(place.source())
    (report,) = crawl_report(place.folder).hubs
    assert report.up_to_date is None and report.questions_open == len(LANGUAGES)


def test_the_command_shows_the_crawl_for_people_and_for_programs(place: Hub, tmp_path: Path) -> None:
    listed(place.source())
    place.folder.rename(tmp_path / "data-crawl")
    (tmp_path / "data").mkdir()
    (tmp_path / "data-crawl").rename(tmp_path / "data" / "crawl")
    open_workshop.cache_clear()
    arguments = ["report", "crawl", "--data", str(tmp_path / "data")]
    shown = CliRunner().invoke(touchstone, arguments)
    assert shown.exit_code == 0 and "up to date until 2026-11-01" in shown.output and "archived" in shown.output
    printed = CliRunner().invoke(touchstone, [*arguments, "--json"])
    assert json.loads(printed.output)["hubs"][0]["found"] == len(place.truth())
