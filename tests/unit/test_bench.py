"""The benchmark's tasks, its figures and its export, without an engine."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.bench import snapshots
from tests.bench.harbor import export
from tests.bench.leak import Sample, growth
from tests.bench.rollout import grown
from tests.bench.sandbox import Row, figures
from tests.bench.tasks import TASKS, VERIFIER, Task, image_spec
from tests.bench.trials import Level

BY_NAME = pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])


def test_there_are_eight_tasks_with_names_of_their_own() -> None:
    assert len({task.name for task in TASKS}) == 8


@BY_NAME
def test_a_solution_has_one_to_three_commands(task: Task) -> None:
    assert 1 <= len(task.solution) <= 3


@BY_NAME
def test_a_verifier_uses_the_standard_library_alone(task: Task) -> None:
    tree = ast.walk(ast.parse(task.verifier))
    modules = {node.module for node in tree if isinstance(node, ast.ImportFrom)}
    assert {str(module).partition(".")[0] for module in modules} <= sys.stdlib_module_names


@BY_NAME
def test_every_test_of_a_verifier_is_expected_to_pass(task: Task) -> None:
    assert task.passing_tests
    assert len(task.passing_tests) == task.verifier.count("def test_")


def test_the_image_holds_the_files_of_every_task_in_its_own_folder() -> None:
    spec = image_spec("base:1")
    assert spec.dockerfile.startswith("FROM base:1\n")
    assert len(spec.context_files) == sum(len(task.setup) for task in TASKS)
    assert "tasks/sum-csv/sales.csv" in spec.context_files


@BY_NAME
def test_an_exported_solution_is_the_same_work_for_another_runner(task: Task, tmp_path: Path) -> None:
    export(task, "image:1", tmp_path)
    folder = tmp_path / task.name
    assert tomllib.loads((folder / "task.toml").read_text())["environment"]["docker_image"] == "image:1"
    assert (folder / "tests" / VERIFIER).read_text() == task.verifier
    script = (folder / "solution" / "solve.sh").read_text()
    assert all(command in script for command in task.solution)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_figures_hold_the_ratio_of_each_level_that_harbor_ran() -> None:
    rows = {
        1: Row(Level(1, trials=100, seconds=60, cpu_seconds=20), Level(1, trials=8, seconds=48, cpu_seconds=24), 0),
        2: Row(Level(2, trials=150, seconds=60, cpu_seconds=45), Level(2, trials=8, seconds=24, cpu_seconds=24), 0),
    }
    assert figures("docker", rows, [0.001, 0.002, 0.009], [0.03]) == {
        "trials_per_minute": {"1": 100.0, "2": 150.0},
        "cpu_seconds_per_trial": 0.3,
        "command_ms_median": 2.0,
        "start_teardown_ms_median": 30.0,
        "backend": "docker",
        "ratio_vs_harbor": {"1": 10.0, "2": 7.5},
    }


def test_without_harbor_there_is_no_ratio() -> None:
    rows = {1: Row(Level(1, trials=100, seconds=60, cpu_seconds=20), None, 0)}
    assert figures("docker", rows, [0.001], [0.03])["ratio_vs_harbor"] is None


def test_growth_of_the_driver_is_told_with_its_bound() -> None:
    early = Sample(trials=100, memory_mb=80.0, descriptors=20, threads=3)
    level = Sample(trials=1000, memory_mb=90.0, descriptors=21, threads=3)
    grown = Sample(trials=1000, memory_mb=97.0, descriptors=920, threads=3)
    assert growth(early, level) == []
    assert [line.split()[0] for line in growth(early, grown)] == ["memory_mb", "descriptors"]


def test_the_growth_of_the_rollout_benchmark_is_from_the_warm_up_to_the_most_held() -> None:
    assert grown([300.0, 340.0, 339.0, 351.5, 345.0]) == 11.5
    assert grown([300.0, 340.0, 330.0]) == 0.0
    assert grown([300.0]) == 0.0


def test_a_small_version_gives_every_figure(tmp_path: Path) -> None:
    found = snapshots.run(tmp_path, 600, part=100, show=lambda _: None)
    assert (found["rows"], found["problems"]) == (600, [])
    assert found["diff_rows"] == {"added": 0, "removed": 100, "changed": 5, "moved": 0, "same": 495}
    assert {"text_gb", "write_ratio_vs_pyarrow", "peak_gb", "filter_s", "diff_s", "pull_s"} <= set(found)
