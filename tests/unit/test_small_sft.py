"""The experiment small_sft: what it plans, does once, goes on with, and says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.generators.file_tasks import FAMILIES
from sandbox.locks import claimed
from tests.unit.study_folders import StandInModels, bench, lines, row, study_folder, task
from training.cells import Cells
from training.studies.material import Material
from training.studies.planning import planned
from training.studies.results import PLAN_CELL, plans_of, result_of
from training.studies.running import do_cells, evaluation_name
from training.studies.small_sft import SmallSft, held_out_families

HELD_OUT = sorted(held_out_families())
OTHERS = sorted(set(FAMILIES) - set(HELD_OUT))
NAMES = [f"{family}-{number}" for family in HELD_OUT for number in range(2)]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Four rows of each family that is learned from, some that are not to be, and two tasks of each held-out family."""
    rows = [row(f"{family} {number}", family=family) for family in OTHERS for number in range(4)]
    rows += [row(f"{family} x", family=family) for family in HELD_OUT]
    rows += [row("hard one", family=OTHERS[0], difficulty="hard")]
    tasks = [task(name, family=name.rpartition("-")[0]) for name in NAMES]
    tasks += [task("other", family=OTHERS[0])]
    return study_folder(tmp_path_factory.mktemp("data"), rows, tasks)


def small(material: Material, rows: int = 3, **acting: object) -> SmallSft:
    told: Mapping[str, object] = {"instances": 8, "instances_per_cell": 3, "runs": 2, "split": None, **acting}
    return SmallSft.of({"rows": rows, "learning": {"base": material.base, "max_tokens": 512}, "acting": told})


def models(material: Material, folder: Path, interrupted: int = 0) -> StandInModels:
    solved = {"1x": frozenset(NAMES[:2]), "4x": frozenset(NAMES[:6])}
    return StandInModels(folder, solved, NAMES, interrupted)


def test_the_held_out_families_follow_from_their_names() -> None:
    assert HELD_OUT == ["checksum", "file_mode", "matching_lines", "word_count"]


def test_arms_are_nested_and_balanced_and_learn_from_no_held_out_family(material: Material) -> None:
    base, one, four = small(material).arms(0, material)
    assert base.lesson is None and one.lesson is not None and four.lesson is not None
    assert set(one.lesson.rows) < set(four.lesson.rows)
    assert (len(one.lesson.rows), len(four.lesson.rows)) == (3, 12)
    assert {found.difficulty for found in four.lesson.rows} == {"easy"}
    families = [found.family for found in four.lesson.rows]
    assert not set(families) & set(HELD_OUT)
    assert {families.count(family) for family in OTHERS} == {1, 2}


def test_another_seed_chooses_other_rows_and_the_same_one_the_same(material: Material) -> None:
    rows = [small(material).arms(seed, material)[1].lesson for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


def test_more_rows_than_there_are_are_refused(material: Material) -> None:
    with pytest.raises(ConfigurationError, match="36 rows are asked for and 32 are there"):
        small(material, rows=9).arms(0, material)


def test_only_held_out_families_are_evaluated_one_after_the_other(material: Material) -> None:
    found = planned(small(material, instances=5), material)
    families = list(found.plan.instances["touchstone"].values())
    assert sorted(families[:4]) == HELD_OUT and families[4] in HELD_OUT
    with pytest.raises(ConfigurationError, match=r"9 of touchstone are asked for; there are 8"):
        planned(small(material, instances=9), material)


def test_a_plan_holds_no_text_of_tasks_and_no_ids(material: Material) -> None:
    text = planned(small(material), material).plan.model_dump_json()
    assert "Plan " not in text and "traj-" not in text and str(material.data) not in text


def test_cells_are_done_once_in_the_order_of_the_arms(material: Material, tmp_path: Path) -> None:
    cells, made = Cells(tmp_path / "cells.jsonl"), models(material, tmp_path)
    told: list[tuple[str, int, int]] = []
    do_cells(
        small(material), bench(material, made), cells, None, lambda cell, done, of: told.append((cell.part, done, of))
    )
    assert [one.cell.name.replace("/touchstone/", "/") for one in lines(tmp_path)][:6] == [
        "all/0/all/plan",
        "base/0/evaluate-00",
        "base/0/evaluate-01",
        "base/0/evaluate-02",
        "1x/0/all/train",
        "1x/0/evaluate-00",
    ]
    assert told[0] == ("plan", 0, 11) and told[-1] == ("evaluate-02", 11, 11)
    before = cells.file.read_bytes()
    again = models(material, tmp_path)
    do_cells(small(material), bench(material, again), cells)
    assert cells.file.read_bytes() == before and not again.answered and not again.trained


def test_arms_of_few_rows_are_evaluated_on_all_that_the_plan_kept(tmp_path: Path) -> None:
    place = f"Paths are relative to {' '.join(f'/srv/tool/part{number}' for number in range(9))}."
    rows = [row(f"{family} row", family=family, instruction=f"{family} row\n\n{place}") for family in OTHERS]
    tasks = [task(name, family=name.rpartition("-")[0], instruction=f"Plan {name}.\n\n{place}") for name in NAMES]
    found = study_folder(tmp_path / "data", rows, tasks)
    do_cells(
        small(found, 1, instances_per_cell=1), bench(found, models(found, tmp_path)), Cells(tmp_path / "cells.jsonl")
    )
    evaluated = [line for line in lines(tmp_path) if line.cell.part.startswith("evaluate")]
    kept = {line.cell.name: len(line.figures["instances"]) for line in evaluated}  # type: ignore[arg-type]
    assert len(kept) == 3 * len(NAMES) and set(kept.values()) == {1}


def test_a_stopped_experiment_goes_on_with_what_is_missing(material: Material, tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    counts = []
    for _ in range(5):
        do_cells(small(material), bench(material, models(material, tmp_path)), cells, most=3)
        counts.append(len(cells.lines()) - 1)
    assert counts == [3, 6, 9, 11, 11]
    assert result_of(SmallSft, cells).cells_done == 11


def test_a_cell_that_another_process_does_is_left_to_it(material: Material, tmp_path: Path) -> None:
    cells, small_one = Cells(tmp_path / "cells.jsonl"), small(material)
    setting = do_cells(small_one, bench(material, models(material, tmp_path)), Cells(tmp_path / "plan.jsonl"), most=1)
    (first, second, *_) = planned(small_one, material).plan.cells()
    taken = material.data / "locks" / f"cell-{evaluation_name(SmallSft.name, setting, first)}.lock"
    with claimed(taken) as mine, claimed(taken) as again:
        assert mine and not again
        do_cells(small_one, bench(material, models(material, tmp_path)), cells, most=1)
    assert [one.cell for one in cells.lines()] == [PLAN_CELL, second]


def test_a_training_that_takes_several_cells_is_counted_as_such(material: Material, tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    made = models(material, tmp_path, interrupted=2)
    do_cells(small(material), bench(material, made), cells, most=5)
    parts = [one.cell.part for one in cells.lines()]
    assert parts[4:] == ["train-00020", "train-00010"] and not made.trained
    do_cells(small(material), bench(material, made), cells, most=1)
    assert cells.lines()[-1].cell.part == "train" and made.trained == [("1x", 0)]


def test_the_result_is_made_of_the_lines_alone(material: Material, tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    setting = do_cells(small(material), bench(material, models(material, tmp_path)), cells)
    moved = Cells(tmp_path / "elsewhere/cells.jsonl")
    moved.file.parent.mkdir()
    moved.file.write_bytes(cells.file.read_bytes())
    found = result_of(SmallSft, moved)
    assert (found.setting, found.cells_done, found.cells_planned) == (setting, 11, 11)
    arms = found.arms["touchstone"]
    assert [(one.judged, one.passed) for one in arms.values()] == [(16, 0), (16, 4), (16, 12)]
    assert arms["base"].difference is None
    one, four = arms["1x"].difference, arms["4x"].difference
    assert one is not None and (one.instances, one.difference, one.better, one.p_value) == (8, 0.25, 2, 0.5)
    assert four is not None and (four.difference, four.better, four.p_value) == (0.75, 6, 0.0312)
    assert {family: mean.mean for family, mean in arms["4x"].by_family.items()} == {
        "checksum": 1.0,
        "file_mode": 1.0,
        "matching_lines": 1.0,
        "word_count": 0.0,
    }
    assert arms["4x"].training["0"]["losses"] == [[1, 2.0], [2, 1.0]]
    assert found.plan.arms["0"]["4x"].rows == 12
    assert result_of(SmallSft, moved) == found


def test_another_size_is_another_setting_whose_cells_are_its_own(material: Material, tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    first = do_cells(small(material), bench(material, models(material, tmp_path)), cells, most=2)
    second = do_cells(small(material, runs=1), bench(material, models(material, tmp_path)), cells, most=1)
    assert first != second
    assert (result_of(SmallSft, cells).setting, result_of(SmallSft, cells).cells_done) == (second, 1)
    assert result_of(SmallSft, cells, first).cells_done == 2


def test_instances_that_come_later_do_not_change_a_plan_that_was_made(material: Material, tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells.jsonl")
    first = do_cells(small(material, instances=5), bench(material, models(material, tmp_path)), cells, most=1)
    known = plans_of(cells)[first]
    study, fewer = small(material, instances=5), {"touchstone": dict(list(known.instances["touchstone"].items())[1:])}
    other = known.model_copy(update={"instances": fewer})
    found = planned(study, material, [other])
    assert found.plan == other != known
    assert [task.name for task in found.tasks["touchstone"]] == list(fewer["touchstone"])
    gone = known.model_copy(update={"instances": {"touchstone": {"general/gone/0//": "checksum"}}})
    assert planned(study, material, [gone]).plan == known
    assert planned(small(material, instances=4), material, [known]).plan != known


def test_without_a_plan_there_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="touchstone experiment small_sft"):
        result_of(SmallSft, Cells(tmp_path / "cells.jsonl"))
