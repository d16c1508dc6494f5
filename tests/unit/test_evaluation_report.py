"""What an evaluation found, each benchmark for itself; and two of them instance by instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigurationError
from pipeline.pass_rates import Tally, pass_at
from pipeline.quality.agreement import mean_of_groups, share_of
from tests.unit.recorded_evaluations import RIGHT, WRONG, PlannedModel, evaluated, planned, run
from training.evaluation_compare import Comparison, compare, sign_test
from training.evaluation_folder import EvaluationFolder
from training.evaluation_report import BenchmarkFigures, evaluation_report
from training.evaluation_tasks import EvaluatedTask

Plans = Mapping[str, Sequence[str | Exception]]


def tasks_of(plans: Plans, fields: Mapping[str, Mapping[str, Any]] | None = None) -> list[EvaluatedTask]:
    return [evaluated(planned(name, **(fields or {}).get(name, {})), f"own/{name}") for name in plans]


def figures(data: Path, plans: Plans, fields: Mapping[str, Mapping[str, Any]] | None = None) -> list[BenchmarkFigures]:
    run(data, tasks_of(plans, fields), PlannedModel(plans), runs=max(map(len, plans.values())))
    return list(evaluation_report(EvaluationFolder(data, "one")).benchmarks)


def test_pass_at_k_is_that_of_the_formula_for_every_k_up_to_the_runs(tmp_path: Path) -> None:
    (found,) = figures(
        tmp_path, {"a": [RIGHT, WRONG, WRONG, WRONG], "b": [RIGHT, RIGHT, WRONG, WRONG], "c": [WRONG] * 4}
    )
    # By k = 1 to 4: 1/4, 1/2, 3/4, 1 of a; 1/2, 5/6, 1, 1 of b; 0 of c.
    assert {k: mean.mean for k, mean in found.pass_at_k.items()} == {1: 0.25, 2: 0.444, 3: 0.583, 4: 0.667}
    assert all(mean.low < mean.mean < mean.high and mean.n == 3 for mean in found.pass_at_k.values())
    assert (found.instances, found.planned, found.begun, found.judged, found.passed) == (3, 12, 12, 12, 3)


def test_no_k_above_sixteen_is_estimated(tmp_path: Path) -> None:
    (found,) = figures(tmp_path, {"a": [RIGHT] * 17})
    assert list(found.pass_at_k) == list(range(1, 17))


def test_what_was_spent_and_what_failed_is_counted(tmp_path: Path) -> None:
    (found,) = figures(tmp_path, {"a": [RIGHT, WRONG]})
    spent = found.spent
    assert (spent.attempts, spent.prompt_tokens, spent.completion_tokens, spent.cost_usd) == (2, 40, 8, 1.0)
    assert (found.mean_turns, found.stop_reasons) == (2.0, {"submitted": 2})
    assert found.failures == {"agent": {"wrong_result": 1}, "environment": {}, "infrastructure": {}}
    assert found.by_turns == {"0-5": share_of(1, 2)}


def test_rates_are_told_by_domain_language_difficulty_and_family(tmp_path: Path) -> None:
    fields = {
        "a": {"domain": "sql", "language": "php", "difficulty": "hard", "family": "joins"},
        "b": {"domain": "sql", "language": "go", "difficulty": "easy", "family": "joins"},
    }
    (found,) = figures(tmp_path, {"a": [RIGHT], "b": [WRONG]}, fields)
    parts = [found.by_domain, found.by_language, found.by_difficulty, found.by_family]
    assert [{name: (one.instances, one.pass_at_1) for name, one in part.items()} for part in parts] == [
        {"sql": (2, 0.5)},
        {"go": (1, 0.0), "php": (1, 1.0)},
        {"easy": (1, 0.0), "hard": (1, 1.0)},
        {"joins": (2, 0.5)},
    ]


def test_benchmarks_are_told_by_format_and_folder_and_never_averaged(tmp_path: Path) -> None:
    told = {
        "a": {"format": "terminal_bench", "folder": "tasks/original-tasks/a"},
        "b": {"format": "harbor", "folder": "tasks/terminal-bench-2/b"},
        "c": {"format": "harbor", "folder": "tasks/c"},
        "d": {"format": "harbor", "folder": "tasks/ours/d", "origin_instance_id": "task-1"},
        "e": {"document": "README.md"},
    }
    plans = {name: [RIGHT if name in "ade" else WRONG] for name in told}
    found = figures(tmp_path, plans, {name: {"provenance": each} for name, each in told.items()})
    assert {one.benchmark: (one.instances, one.pass_at_k[1].mean) for one in found} == {
        "harbor": (1, 0.0),
        "harbor/terminal-bench-2": (1, 0.0),
        "terminal-bench-1/original-tasks": (1, 1.0),
        "touchstone": (2, 1.0),
    }


def test_an_interval_over_repositories_is_wider_where_their_instances_are_alike() -> None:
    tallies = [Tally(1, 1, number % 2) for number in range(12) for _ in range(10)]
    repositories = [f"own/{number}" for number in range(12) for _ in range(10)]
    alone, together = pass_at(tallies, (1,))[1], pass_at(tallies, (1,), repositories)[1]
    assert alone.mean == together.mean == 0.5
    assert together.low < alone.low < 0.5 < alone.high < together.high


def test_groups_weigh_by_their_size_and_few_of_them_have_no_interval() -> None:
    groups = [[1.0, 1.0, 1.0]] * 5 + [[0.0]] * 5
    found = mean_of_groups(groups)
    assert found is not None and (found.n, found.mean) == (20, 0.75)
    assert found.low < 0.75 < found.high
    assert mean_of_groups(groups[:9]) is None
    assert pass_at([Tally(2, 2, 1)] * 20, (1,), ["a", "b"] * 10) == {}


def test_repositories_that_never_passed_are_as_few_as_they_are() -> None:
    tallies, repositories = [Tally(4, 4, 0)] * 40, [f"own/{number % 10}" for number in range(40)]
    assert pass_at(tallies, (1,), repositories)[1].high == pytest.approx(1 - 0.025**0.1)


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"), [(0, 10, 0.0, 0.278), (5, 10, 0.237, 0.763), (81, 263, 0.255, 0.366)]
)
def test_shares_have_wilsons_interval(part: int, whole: int, low: float, high: float) -> None:
    found = share_of(part, whole)
    assert found is not None and (found.low, found.high) == (low, high)
    assert share_of(0, 0) is None


def compared(data: Path, a: Plans, b: Plans, fields: Mapping[str, Mapping[str, Any]] | None = None) -> Comparison:
    for name, plans in (("a", a), ("b", b)):
        runs = max(map(len, plans.values()))
        run(data, tasks_of(plans, fields), PlannedModel(plans, details={"weights": name}), runs=runs, name=name)
    return compare(EvaluationFolder(data, "a"), EvaluationFolder(data, "b"))


def test_the_difference_is_the_mean_of_those_at_each_instance(tmp_path: Path) -> None:
    fields = {"w": {"family": "first"}}
    a: Plans = {"w": [WRONG, WRONG], "x": [RIGHT, WRONG], "y": [RIGHT, RIGHT], "z": [WRONG, WRONG]}
    b: Plans = {"w": [RIGHT, RIGHT], "x": [RIGHT, RIGHT], "y": [RIGHT, WRONG], "z": [WRONG, WRONG]}
    found = compared(tmp_path, a, b, fields)
    ((one,), policies) = (found.benchmarks, found.policies)
    overall = one.overall
    # +1, +1/2, -1/2 and 0.
    assert (overall.instances, overall.a, overall.b, overall.difference) == (4, 0.375, 0.625, 0.25)
    assert overall.low < 0.25 < overall.high
    assert (overall.better, overall.worse, overall.p_value) == (2, 1, 1.0)
    assert {name: each.difference for name, each in one.by_family.items()} == {"first": 1.0, "created_file": 0.0}
    assert policies == ("details.weights: a and b",)


@pytest.mark.parametrize(
    ("better", "worse", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (1, 8, 0.0390625), (3, 3, 1.0)]
)
def test_the_sign_test_is_exact(better: int, worse: int, p: float) -> None:
    assert sign_test(better, worse) == pytest.approx(p) == sign_test(worse, better)


def test_instances_that_one_of_them_lacks_are_counted_and_not_compared(tmp_path: Path) -> None:
    a: Plans = {"w": [RIGHT], "x": [RIGHT], "y": [RIGHT]}
    found = compared(tmp_path, a, {"x": [WRONG], "z": [RIGHT]})
    assert (found.compared, found.only_a, found.only_b) == (1, 2, 1)
    assert (found.benchmarks[0].overall.a, found.benchmarks[0].overall.b) == (1.0, 0.0)


def test_evaluations_without_an_instance_in_common_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no instance in common"):
        compared(tmp_path, {"x": [RIGHT]}, {"z": [RIGHT]})
