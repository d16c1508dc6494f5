"""What the report of images counts as built, usable and stopped, and what it leaves apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.image_report import ImageReport, image_report
from pipeline.schemas import Row
from pipeline.tables import Store

Report = Callable[..., ImageReport]


def attempt(strategy: str = "template", *, smoke: bool | None = None, **columns: object) -> Row:
    """A row of an attempt that was built where `smoke` says how its image did, else that failed."""
    if smoke is not None:
        return {"strategy": strategy, "status": "built", "smoke_ok": smoke, "seconds": 1.0, **columns}
    return {"strategy": strategy, "status": "failed", "failure_class": "build_failed", "seconds": 1.0, **columns}


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Writes the attempts at each repository, given as `name=[row, …]`, into an empty folder and counts them."""
    folders = itertools.count()

    def written(
        languages: dict[str, str] | None = None,
        packages: tuple[str, ...] = (),
        domains: tuple[str, ...] = (),
        **tried: list[Row],
    ) -> ImageReport:
        store = Store(tmp_path / str(next(folders)))
        repositories, builds = list[Row](), list[Row]()
        for name, rows in tried.items():
            item: Row = {"repository_id": name, "item_key": name, "attempt": 1, "reason": ""}
            source = "registry" if name in packages else "context" if name in domains else "local"
            full_name = f"{'debian' if name in packages else source}/{name}"
            language = (languages or {}).get(name, "python")
            repositories.append({**item, "source": source, "full_name": full_name, "language": language})
            builds += [{**item, **row} for row in rows]
        store.append("repositories", repositories, app_id="test", sequence=1)
        store.append("image_builds", builds, app_id="test", sequence=1)
        return image_report(store)

    return written


def test_an_empty_folder_counts_as_nothing(tmp_path: Path) -> None:
    empty = image_report(Store(tmp_path))
    assert (empty.repositories, empty.built_rate, empty.smoke_ok_rate) == (0, 0.0, 0.0)
    assert (empty.by_language, empty.by_strategy, empty.by_failure_class) == ({}, {}, {})
    assert empty.build_seconds.total == 0.0


def test_a_repository_counts_once_however_many_attempts_it_took(report: Report) -> None:
    found = report(
        one=[attempt("own_dockerfile"), attempt("template"), attempt("repaired", smoke=True)], other=[attempt()]
    )
    assert (found.repositories, found.built, found.smoke_ok) == (2, 1, 1)
    assert (found.built_rate, found.smoke_ok_rate) == (0.5, 0.5)


def test_an_image_that_was_not_tried_out_is_built_and_not_usable(report: Report) -> None:
    found = report(one=[{"strategy": "template", "status": "built"}])
    assert (found.built, found.smoke_ok) == (1, 0)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([attempt("own_dockerfile", smoke=False), attempt("template", smoke=True), attempt("model")], "template"),
        ([attempt("own_dockerfile"), attempt("template", smoke=False), attempt("model", smoke=False)], "template"),
        ([attempt("own_dockerfile"), attempt("template"), attempt("model")], "model"),
        ([{"status": "failed"}], "unknown"),
    ],
    ids=["first usable image", "first image", "last attempt", "no attempt at all"],
)
def test_the_strategy_of_a_repository_is_that_of_its_best_attempt(report: Report, rows: list[Row], best: str) -> None:
    found = report(one=rows)
    assert {name for name, rates in found.by_strategy.items() if rates.repositories} == {best}


def test_a_strategy_tells_how_often_it_was_tried_and_how_often_it_built(report: Report) -> None:
    found = report(
        one=[attempt("own_dockerfile"), attempt("template", smoke=True)],
        other=[attempt("own_dockerfile", smoke=True)],
    )
    own = found.by_strategy["own_dockerfile"]
    assert (own.attempts, own.attempts_built, own.repositories) == (2, 1, 1)


def test_languages_are_counted_apart(report: Report) -> None:
    found = report({"a": "go", "b": "go", "c": "c"}, a=[attempt(smoke=True)], b=[attempt()], c=[attempt(smoke=False)])
    assert {name: rates.built_rate for name, rates in found.by_language.items()} == {"c": 1.0, "go": 0.5}
    assert found.by_language["c"].smoke_ok_rate == 0.0


def test_only_the_last_attempt_says_what_stopped_a_repository(report: Report) -> None:
    found = report(
        one=[attempt(failure_class="base_missing"), attempt(failure_class="version_drift")],
        other=[attempt(failure_class="base_missing"), attempt(smoke=False)],
    )
    assert {name: (one.repositories, one.rate) for name, one in found.by_failure_class.items()} == {
        "version_drift": (1, 0.5)
    }


def test_a_failure_without_a_class_is_not_lost(report: Report) -> None:
    assert report(one=[attempt(failure_class=None)]).by_failure_class["unknown"].repositories == 1


def test_what_our_machine_stopped_is_told_apart_and_stays_in_the_denominator(report: Report) -> None:
    found = report(
        one=[attempt(smoke=True)],
        two=[attempt(failure_class="infrastructure")],
        three=[attempt(failure_class="needs_buildkit")],
        four=[attempt(failure_class="compile_failed")],
    )
    assert found.infrastructure == {"infrastructure": 1, "needs_buildkit": 1}
    assert (found.repositories, found.built_rate, found.built_rate_without_infrastructure) == (4, 0.25, 0.5)


def test_tests_count_only_where_they_could_be_run(report: Report) -> None:
    found = report(
        one=[attempt(smoke=True, tests_ok=True)],
        two=[attempt(smoke=True, tests_ok=False)],
        three=[attempt(smoke=True, tests_ok=None)],
    )
    assert (found.tests_run, found.tests_ok, found.tests_ok_rate) == (2, 1, 0.5)


def test_substituted_bases_count_for_images_only(report: Report) -> None:
    found = report(one=[attempt(smoke=True, base_substituted=True)], two=[attempt(base_substituted=True)])
    assert found.base_substituted == 1


def test_packages_of_debian_are_reported_apart(report: Report) -> None:
    found = report(packages=("tool",), tool=[attempt(smoke=True)], project=[attempt()])
    assert (found.packages.repositories, found.packages.built_rate) == (1, 1.0)
    assert (found.without_packages.repositories, found.without_packages.built_rate) == (1, 0.0)


def test_images_of_domains_are_counted_apart_and_in_no_other_number(report: Report) -> None:
    project = [attempt("own_dockerfile", smoke=True, seconds=3.0)]
    alone = report(project=project)
    beside = report(domains=("sql", "qemu"), project=project, sql=[attempt(smoke=True)], qemu=[attempt()])
    assert (beside.domains.repositories, beside.domains.built) == (2, 1)
    assert beside.model_copy(update={"domains": alone.domains}) == alone


def test_seconds_leave_out_what_came_from_the_cache(report: Report) -> None:
    found = report(
        one=[attempt(seconds=10.0), attempt(smoke=True, seconds=20.0)],
        two=[attempt(smoke=True, seconds=0.5, cached=True)],
    ).build_seconds
    assert (found.builds, found.p50, found.p90, found.total) == (2, 15.0, 19.0, 30.5)


def test_a_later_attempt_at_an_item_replaces_all_rows_of_the_former(report: Report, tmp_path: Path) -> None:
    report(one=[attempt(failure_class="infrastructure"), attempt(failure_class="infrastructure")])
    again = {"repository_id": "one", "item_key": "one", "attempt": 2, "reason": "", **attempt("model", smoke=True)}
    store = Store(tmp_path / "0")
    store.append("image_builds", [again], app_id="test", sequence=2)
    found = image_report(store)
    assert (found.built, found.infrastructure, list(found.by_strategy)) == (1, {}, ["model"])
