"""Comparisons: their cells are done once, also where processes are killed, and what is said of them can be counted."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.errors import ConfigurationError, InfrastructureFailure
from sandbox.errors import SandboxUnavailable
from tests.unit.scripted_comparison import BEGUN, HELD, ScriptedConfig, figures_of, scripted
from training.cells import Cell, Cells
from training.studies.comparisons.comparison import Comparison, ComparisonConfig, ComparisonPlan
from training.studies.comparisons.figures import ArmFigures, GroupFigures
from training.studies.comparisons.intervals import difference_over, mean_over
from training.studies.comparisons.planning import settings_of
from training.studies.comparisons.results import ComparisonResult, result_of
from training.studies.comparisons.running import Place, do_comparison

LEARNED = ("oracle", "bc", "more_bc", "grpo")
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    return Cells(tmp_path / "results/cells.jsonl")


def do(
    cells: Cells,
    config: ComparisonConfig,
    comparison: Comparison | None = None,
    most: int | None = None,
    command: str = "touchstone experiment scripted",
) -> str:
    data = cells.file.parent.parent / "data"
    return do_comparison(comparison or scripted(), config, Place(data, "abc", command), cells, most)


def config(*arms: str, seeds: tuple[int, ...] = (0, 1), budget: int = 1000, gguf: Path | None = None) -> ScriptedConfig:
    return ScriptedConfig(arms=arms, seeds=seeds, budget=budget, gguf=gguf)


def weights(folder: Path, content: bytes = b"GGUF one") -> Path:
    file = folder / "weights.gguf"
    file.write_bytes(content)
    return file


def done(cells: Cells) -> list[str]:
    return [line.cell.name for line in cells.lines() if line.cell.part == "run"]


def result(cells: Cells, setting: str | None = None) -> ComparisonResult:
    return result_of(scripted(), cells, setting)


@contextmanager
def held(cells: Cells, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does cells of bc and grpo and waits within one of them."""
    data = folder / "data"
    data.mkdir()
    (data / HELD).write_text(name)
    command = [sys.executable, "-m", "tests.unit.scripted_comparison", str(data), str(cells.file), "bc", "grpo"]
    with subprocess.Popen(command, cwd=PROJECT) as process:
        try:
            while not (data / BEGUN).exists():
                assert process.poll() is None
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def test_the_table_is_what_can_be_counted_by_hand(cells: Cells) -> None:
    do(cells, config(*LEARNED))
    found = result(cells)
    assert (found.cells_done, found.cells_planned, found.seeds, found.budget) == (8, 8, (0, 1), 1000)
    assert (found.command, found.backbones) == ("touchstone experiment scripted", {"tiny": LEARNED})
    maze = found.environments["maze"]
    assert (maze.tasks, maze.held_out) == ({"seen": 2, "unseen": 4}, "unseen")
    more, grpo = maze.arms["more_bc"].groups["unseen"], maze.arms["grpo"].groups["unseen"]
    assert (more.mean, more.n, more.tasks, more.by_seed) == (0.375, 8, 4, {"0": 0.25, "1": 0.5})
    assert (grpo.mean, grpo.by_seed) == (0.875, {"0": 0.75, "1": 1.0})
    assert more.difference is None and grpo.difference is not None
    assert (grpo.difference.mean, grpo.difference.n) == (0.5, 8)
    assert 0.0 <= grpo.difference.low < 0.5 < grpo.difference.high <= 1.0
    spent = maze.arms["grpo"].spent
    assert spent is not None
    assert (spent.environment_steps, spent.cpu_s, spent.episodes, spent.budget) == (15.0, 1.5, 2.0, 710.0)
    assert spent.tokens.model_dump() == {"learned": 600.0, "read": 350.0, "written": 30.0}


def test_an_arm_that_never_passes_has_an_interval_all_the_same(cells: Cells) -> None:
    do(cells, config("bc"))
    group = result(cells).environments["maze"].arms["bc"].groups["unseen"]
    assert (group.mean, group.interval[0]) == (0.0, 0.0)
    assert group.interval[1] == pytest.approx(1 - 0.025 ** (1 / 4))


def test_cited_figures_are_marked_as_not_run(cells: Cells) -> None:
    do(cells, config("bc"))
    assert [(one.name, one.status) for one in result(cells).cited] == [("Others", "not run")]


def test_arms_of_another_backbone_are_not_compared(cells: Cells, tmp_path: Path) -> None:
    do(cells, config("more_bc", "react", gguf=weights(tmp_path)))
    found = result(cells)
    assert found.backbones == {"tiny": ("more_bc",), "gguf": ("react",)}
    react = found.environments["maze"].arms["react"].groups["unseen"]
    assert (react.mean, react.difference) == (0.062, None)
    assert list(found.weights) == ["gguf"]


def test_what_is_not_done_is_unfinished_and_has_no_figure(cells: Cells) -> None:
    do(cells, config("bc", "grpo"), most=3)
    arms = result(cells).environments["maze"].arms
    assert {name: (arm.seeds_done, arm.finished) for name, arm in arms.items()} == {
        "bc": ((0, 1), True),
        "grpo": ((0,), False),
    }
    assert arms["grpo"].groups["unseen"].mean == 0.75
    do(cells, config("more_bc"), most=0)
    more = result(cells).environments["maze"].arms["more_bc"]
    assert (more.groups, more.spent, more.finished) == ({}, None, False)


def test_a_stopped_comparison_goes_on_with_what_is_missing(cells: Cells) -> None:
    seen: list[str] = []

    def run(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
        seen.append(cell.name)
        return figures_of(cell, plan)

    for _ in range(3):
        do(cells, config("bc", "grpo"), scripted(run), most=2)
    assert seen == ["bc/0/maze/run", "grpo/0/maze/run", "bc/1/maze/run", "grpo/1/maze/run"] == done(cells)


def test_more_arms_and_seeds_go_on_with_the_setting(cells: Cells) -> None:
    first = do(cells, config("bc", seeds=(0,)), command="one")
    second = do(cells, config("bc", "more_bc", seeds=(0, 1)), command="two")
    third = do(cells, config("grpo", seeds=(3,)), command="three")
    assert first == second == third
    assert done(cells) == [
        "bc/0/maze/run",
        "more_bc/0/maze/run",
        "bc/1/maze/run",
        "more_bc/1/maze/run",
        "grpo/3/maze/run",
    ]
    found = result(cells)
    assert (found.command, found.seeds) == ("one && two && three", (0, 1, 3))
    assert (found.cells_done, found.cells_planned) == (5, 5)
    assert found.environments["maze"].arms["grpo"].seeds_planned == (3,)
    assert found.environments["maze"].arms["grpo"].groups["unseen"].difference is None


@pytest.mark.parametrize(
    "other", [config("bc", budget=2000), ScriptedConfig(arms=("bc",), environments=("maze", "hall"))]
)
def test_another_budget_or_configuration_is_never_mixed(cells: Cells, other: ScriptedConfig) -> None:
    first, second = do(cells, config("more_bc")), do(cells, other, most=1)
    assert first != second
    newest, before = result(cells), result(cells, first)
    assert (newest.cells_done, list(newest.environments["maze"].arms)) == (1, ["bc"])
    assert (before.cells_done, list(before.environments["maze"].arms), before.budget) == (2, ["more_bc"], 1000)


def test_other_weights_in_one_setting_are_refused(cells: Cells, tmp_path: Path) -> None:
    do(cells, config("react", gguf=weights(tmp_path)), most=1)
    other = config("react", seeds=(4,), gguf=weights(tmp_path, b"GGUF two"))
    with pytest.raises(ConfigurationError, match="answered from other weights"):
        do(cells, other)
    assert done(cells) == ["react/0/maze/run"]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (config("bc", "dreams"), "no arm 'dreams'; there are oracle, bc, more_bc, grpo, react"),
        (config("bc", "bc"), "--arms names bc twice"),
        (config("bc", seeds=(1, 1)), "--seeds names 1 twice"),
        (config("bc", "react"), "arms react answer from a GGUF file: give it with --gguf"),
        (config("bc").model_copy(update={"unseen": 0}), "environment maze has a group without tasks"),
    ],
)
def test_a_mistake_is_named_before_anything_is_done(cells: Cells, wrong: ScriptedConfig, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        do(cells, wrong)
    assert not cells.file.exists()


@pytest.mark.parametrize("fault", [InfrastructureFailure("the network"), SandboxUnavailable("the engine")])
def test_a_broken_machine_is_no_result_and_the_cell_is_tried_again(cells: Cells, fault: Exception) -> None:
    def broken(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
        if cell.arm == "bc":
            raise fault
        return figures_of(cell, plan)

    do(cells, config("bc", "grpo", seeds=(0,)), scripted(broken))
    assert done(cells) == ["grpo/0/maze/run"]
    do(cells, config("bc", "grpo", seeds=(0,)))
    assert done(cells) == ["grpo/0/maze/run", "bc/0/maze/run"]


def test_an_arm_that_was_judged_on_other_tasks_is_refused(cells: Cells) -> None:
    def other(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
        figures = figures_of(cell, plan)
        easy = GroupFigures(tasks=1, passed=(1.0,), names=("easy",))
        return figures.model_copy(update={"groups": {**figures.groups, "unseen": easy}})

    with pytest.raises(ValueError, match="bc/0/maze/run was judged on other tasks"):
        do(cells, config("bc"), scripted(other))
    assert not done(cells)


def test_an_arm_may_be_judged_on_held_out_tasks_alone(cells: Cells) -> None:
    def held_out(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
        figures = figures_of(cell, plan)
        return figures.model_copy(update={"groups": {"unseen": figures.groups["unseen"]}})

    do(cells, config("more_bc"))
    do(cells, config("grpo"), scripted(held_out))
    groups = result(cells).environments["maze"].arms["grpo"].groups
    assert list(groups) == ["unseen"] and groups["unseen"].difference is not None


@pytest.mark.parametrize(("passed", "names"), [((1.0,), ("a", "b")), ((1.0, 2.0), ("a", "b")), ((0.5, 0.5), ("a",))])
def test_figures_have_one_share_for_each_task(passed: tuple[float, ...], names: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="share"):
        GroupFigures(tasks=2, passed=passed, names=names)


def test_a_killed_process_loses_the_cell_under_work_alone(cells: Cells, tmp_path: Path) -> None:
    with held(cells, tmp_path, "grpo/0/maze/run") as process:
        assert done(cells) == ["bc/0/maze/run"]
        before = cells.file.read_bytes()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    (tmp_path / "data" / HELD).unlink()
    do(cells, config("bc", "grpo"))
    assert done(cells) == ["bc/0/maze/run", "grpo/0/maze/run", "bc/1/maze/run", "grpo/1/maze/run"]
    assert cells.file.read_bytes().startswith(before)


def test_processes_share_cells_and_none_is_done_twice(cells: Cells, tmp_path: Path) -> None:
    with held(cells, tmp_path, "bc/0/maze/run") as process:
        do(cells, config("bc", "grpo"))
        assert done(cells) == ["grpo/0/maze/run", "bc/1/maze/run", "grpo/1/maze/run"]
        (tmp_path / "data" / HELD).unlink()
        assert process.wait() == 0
    assert done(cells)[-1] == "bc/0/maze/run" and len(done(cells)) == 4
    assert len(settings_of(cells)) == 1


def test_tasks_that_all_seeds_have_count_once() -> None:
    once = {0: (0.0, 1.0, 1.0, 0.0, 0.0, 1.0)}
    thrice = dict.fromkeys(range(3), once[0])
    one, three = mean_over(once), mean_over(thrice)
    assert one is not None and three is not None
    assert (one.low, one.high, one.n, three.n) == (three.low, three.high, 6, 18)


def test_seeds_that_differ_widen_the_interval() -> None:
    half = (0.0, 1.0) * 50
    alike = mean_over({0: half, 1: half})
    apart = mean_over({0: (0.0,) * 100, 1: (1.0,) * 100})
    assert alike is not None and apart is not None
    assert (apart.mean, apart.low, apart.high) == (0.5, 0.0, 1.0)
    assert 0.38 < alike.low < 0.43 and 0.57 < alike.high < 0.62


def test_the_interval_of_two_tasks_is_known() -> None:
    found = mean_over({0: (0.0, 1.0)})
    assert found is not None and (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)


def test_a_difference_is_paired() -> None:
    found = difference_over({0: (0.5,) * 4, 1: (0.5,) * 4})
    assert found is not None and (found.mean, found.low, found.high) == (0.5, 0.5, 0.5)
    assert difference_over({}) is None


def test_arms_of_another_backbone_may_be_judged_on_fewer_tasks_and_bounds_are_told_of_the_same(
    cells: Cells, tmp_path: Path
) -> None:
    def run(cell: Cell, plan: ComparisonPlan, config: ComparisonConfig, data: Path) -> ArmFigures:
        every = figures_of(cell, plan)
        if cell.arm != "react":
            return every
        names = plan.tasks[cell.environment]["unseen"][:2]
        first = {"unseen": GroupFigures(tasks=2, passed=(1.0, 0.0), names=names)}
        return ArmFigures.model_validate({"groups": first, "later": {"unseen": (1.0, 1.0)}, "spent": every.spent})

    fewer = scripted(run)
    arms = fewer.arms | {"react": fewer.arms["react"].model_copy(update={"judged": 2})}
    fewer = dataclasses.replace(fewer, arms=arms)
    do(cells, config("oracle", "bc", "react", seeds=(0,), gguf=weights(tmp_path)), fewer)
    maze = result_of(fewer, cells).environments["maze"]
    assert maze.arms["react"].groups["unseen"].mean == 0.5 and maze.arms["react"].groups["unseen"].tasks == 2
    assert maze.arms["react"].later["unseen"].mean == 1.0 and not maze.arms["bc"].later
    assert maze.bounds["gguf"]["oracle"]["unseen"].tasks == 2 and maze.bounds["tiny"]["oracle"]["unseen"].tasks == 4
    with pytest.raises(ValueError, match="other tasks than planned"):
        do(cells, config("react", seeds=(1,), gguf=weights(tmp_path)), scripted(run))
