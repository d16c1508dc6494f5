"""The crawl: every repository once, no question beyond the cap, and afterwards only what changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.sources.github_index import CrawlIndex, Slice
from pipeline.sources.github_search import CAP, parts, question
from tests.github_server.limits import Fault
from tests.github_server.world import World
from tests.unit.crawled_hub import Hub, crawled, hub


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Hub]:
    """Of these repositories 1,300 were created in one second."""
    with hub(tmp_path, World(3_000, crowd=1_300)) as one:
        yield one


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Hub]:
    with hub(tmp_path, World(400)) as one:
        yield one


def test_every_repository_is_found_with_what_the_hub_says_of_it(medium: Hub) -> None:
    index = medium.index()
    medium.crawl(index, tokens=("one", "two"))
    assert crawled(index) == medium.truth()
    assert index.progress()["missing"] == 0


def test_no_page_beyond_the_cap_is_asked_for(medium: Hub) -> None:
    medium.crawl(medium.index())
    pages = [int(parse_qs(urlsplit(path).query)["page"][0]) for path in medium.asked("/search/")]
    assert max(pages) <= CAP / 100
    assert 422 not in {status for _, _, status in medium.server.requests}


def test_a_second_is_divided_by_size(medium: Hub) -> None:
    medium.crawl(medium.index())
    assert any("size%3A" in path for path in medium.asked("/search/"))


def test_results_that_change_pages_meanwhile_are_found_nevertheless(medium: Hub) -> None:
    medium.server.rest.shifting = True
    index = medium.index()
    medium.crawl(index)
    assert crawled(index) == medium.truth()


def test_results_that_the_hub_calls_incomplete_are_asked_for_again(small: Hub) -> None:
    small.server.rest.incomplete = 3
    index = small.index()
    small.crawl(index)
    assert crawled(index) == small.truth()


def test_results_that_the_hub_counts_and_never_hands_out_do_not_multiply_the_questions(medium: Hub) -> None:
    medium.server.rest.phantoms = 1
    index = medium.index()
    medium.crawl(index)
    assert crawled(index) == medium.truth()
    assert len(medium.asked("/search/")) < 300


def test_results_that_stay_incomplete_end_the_crawl_with_its_reason(small: Hub) -> None:
    small.server.rest.incomplete = 10**6
    with pytest.raises(
        InfrastructureFailure, match=r"calls its results incomplete 4 times in a row: language:\S+ created"
    ):
        small.crawl(small.index())


def test_a_second_crawl_asks_only_for_what_was_pushed_since(small: Hub) -> None:
    index = small.index()
    small.crawl(index)
    before = len(small.asked("/search/"))
    small.crawl(index)
    asked = small.asked("/search/")[before:]
    assert len(asked) == 8 and all("pushed%3A" in path for path in asked)


def test_a_refresh_learns_of_pushes_new_repositories_and_new_names(small: Hub) -> None:
    index = small.index()
    small.crawl(index)
    small.world.pass_time(86_400)
    for repository_id in (3, 150, 399):
        small.world.push(repository_id)
    small.world.rename(150, "other")
    added = small.world.add("Go")
    small.crawl(index)
    assert crawled(index) == small.truth()
    assert added in crawled(index)


def test_a_push_between_two_refreshes_is_missed_by_neither(small: Hub) -> None:
    index = small.index()
    small.crawl(index)
    for _ in range(3):
        small.world.push(7)
        small.world.pass_time(40)
        small.crawl(index)
        assert crawled(index) == small.truth()


def test_other_qualifiers_begin_a_crawl_anew_over_what_is_known(small: Hub) -> None:
    index = small.index()
    small.crawl(index, qualifiers="stars:>=20")
    few = crawled(index)
    small.crawl(index, qualifiers="")
    assert 0 < len(few) < len(crawled(index)) and crawled(index) == small.truth()


def test_qualifiers_that_the_hub_does_not_know_name_the_setting(small: Hub) -> None:
    with pytest.raises(ConfigurationError, match=r"colour:blue.*sources.github.qualifiers"):
        small.crawl(small.index(), qualifiers="colour:blue")


def test_a_crawl_that_the_hub_ends_goes_on_where_it_was(small: Hub) -> None:
    index = small.index()
    small.limits.faults.append(Fault(r"language:PHP", 502, times=6))
    with pytest.raises(InfrastructureFailure):
        small.crawl(index)
    done = index.progress()["slices_done"]
    small.crawl(index)
    assert done > 0 and crawled(index) == small.truth()
    assert len([path for path in small.asked("Go+created") if "page=1&" in path]) == 1


def test_a_crawl_under_the_limits_of_the_hub_is_never_refused(medium: Hub) -> None:
    medium.limits.budgets["search"] = (30, 60.0)
    index = medium.index()
    medium.crawl(index)
    assert {status for _, _, status in medium.server.requests} == {200}
    assert crawled(index) == medium.truth() and sum(medium.clock.waits) > 30


def test_a_crawl_through_a_hub_that_fails_and_refuses_finds_everything(medium: Hub) -> None:
    medium.limits.faults += [
        Fault("page=2", 502, body=b"<html>", times=2),
        Fault("page=3", 429, {"Retry-After": "3"}),
        Fault("language:Java", 403, message="You have exceeded a secondary rate limit"),
        Fault("language:C", 200, body=b'{"total_count": 7, "items"'),
    ]
    index = medium.index()
    medium.crawl(index, tokens=("one", "two"))
    assert crawled(index) == medium.truth() and not medium.limits.faults


def test_an_index_of_other_code_is_not_touched(small: Hub) -> None:
    index = small.index()
    index._connection.execute("PRAGMA user_version = 99")
    index.close()
    with pytest.raises(ConfigurationError, match="layout 99"):
        small.index()


def test_a_question_names_language_time_and_size() -> None:
    one = Slice(0, 0, "cpp", "created", 1_600_000_000, 1_600_000_001, 5, 9)
    times = "2020-09-13T12:26:40Z..2020-09-13T12:26:41Z"
    assert question(one, "stars:>=5") == f"language:C++ created:{times} size:5..9 stars:>=5"


@settings(max_examples=200, deadline=timedelta(seconds=5))
@given(
    first=st.integers(1_000_000_000, 1_700_000_000),
    seconds=st.integers(1, 10**8),
    low=st.integers(0, 10**6),
    width=st.one_of(st.none(), st.integers(0, 10**7)),
    total=st.integers(2, 10**6),
)
def test_parts_cover_a_question_without_overlapping(
    first: int, seconds: int, low: int, width: int | None, total: int
) -> None:
    one = Slice(1, 0, "go", "created", first, first + seconds - 1, low, None if width is None else low + width)
    found = list(parts(one, total))
    if not found:
        assert seconds == 1 and one.size_low == one.size_high
        return
    assert len(found) >= 2
    by_time = seconds > 1
    edges = [
        (part.first, part.last) if by_time else (part.size_low, 2**62 if part.size_high is None else part.size_high)
        for part in found
    ]
    whole = (one.first, one.last) if by_time else (low, 2**62 if one.size_high is None else one.size_high)
    assert (edges[0][0], edges[-1][1]) == whole
    assert all(low <= high for low, high in edges)
    assert all(after[0] == before[1] + 1 for before, after in pairwise(edges))


def test_the_index_keeps_what_a_slice_gave_and_that_it_is_done_together(tmp_path: Path) -> None:
    index = CrawlIndex(tmp_path / "hub.sqlite")
    index.plan([Slice(0, 0, "go", "created", 1, 2)], {"subject": "x"})
    one = index.open_slices(1)[0]
    with pytest.raises(AttributeError):
        index.finish(one, [None], missing=0)  # type: ignore[list-item]  # fails in the middle
    assert index.open_slices(1) == [one]
    assert re.fullmatch(r"\d+", str(one.id))
