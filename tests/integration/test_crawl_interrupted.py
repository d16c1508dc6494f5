"""The crawl benchmark in small: killed at random points, the crawl ends with the hub's truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.crawl import run


@pytest.mark.parametrize(("repositories", "seed"), [(12_000, 1), pytest.param(200_000, 2, marks=pytest.mark.long)])
def test_a_crawl_that_is_killed_five_times_has_no_hole_and_no_double(
    tmp_path: Path, repositories: int, seed: int
) -> None:
    figures = run(repositories, tmp_path, seed=seed, sample=0, kills=5)
    assert (figures["kills"], figures["missing"], figures["surplus"]) == (5, 0, 0)


def test_the_benchmark_says_how_fast_and_how_large_a_crawl_is(tmp_path: Path) -> None:
    figures = run(20_000, tmp_path, sample=0.001)
    assert (figures["missing"], figures["surplus"]) == (0, 0)
    assert figures["contents"] == 20 and sum(figures["outcomes"].values()) == 20  # type: ignore[attr-defined]
    for name in ("repositories", "repositories_per_second", "projected_days_900k"):
        assert float(str(figures[name])) > 0
    assert float(str(figures["rss_mb"])) < 400
