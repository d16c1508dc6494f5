"""Models of arms are really trained and really answer, in a whole tiny experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from pipeline.generators.file_tasks import FAMILIES
from pipeline.llm.protocol import Message, Sampling
from tests.unit.recorded_evaluations import OPTIONS, PlannedBackend
from tests.unit.study_folders import row, study_folder, task
from training.cells import Cells
from training.studies.local_models import LocalModels
from training.studies.material import Material
from training.studies.results import result_of
from training.studies.running import Bench, StretchOver, do_cells
from training.studies.small_sft import SmallSft, held_out_families
from training.studies.study import Arm


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    family = min(set(FAMILIES) - held_out_families())
    rows = [row(f"{family} {number}", family=family) for number in range(4)]
    return study_folder(tmp_path_factory.mktemp("data"), rows, [task("one", family=min(held_out_families()))])


def study(material: Material, **learning: object) -> SmallSft:
    learns = {"base": material.base, "max_tokens": 256, "batch": 1, "lora_rank": 2, "epochs": 3, **learning}
    acting = {"instances": 1, "runs": 1, "split": None, "max_steps": 1, "max_tokens": 4}
    return SmallSft.of({"rows": 2, "times": 2, "learning": learns, "acting": acting})


def local(material: Material) -> LocalModels:
    return LocalModels(material.data, lambda: None, "abc")


def test_a_tiny_experiment_goes_from_rows_to_its_result(material: Material, tmp_path: Path) -> None:
    cells, backend = Cells(tmp_path / "cells.jsonl"), PlannedBackend()
    do_cells(
        study(material), Bench(material, local(material), lambda: backend, OPTIONS, "touchstone experiment"), cells
    )
    found = result_of(SmallSft, cells)
    assert (found.cells_done, found.cells_planned) == (5, 5)
    arms = found.arms["touchstone"]
    assert [arms[name].judged for name in ("base", "1x", "2x")] == [1, 1, 1]
    told = [arms[name].training["0"] for name in ("1x", "2x")]
    assert [one["rows"] for one in told] == [2, 4]
    assert all(isinstance(one["losses"], list) and one["losses"] for one in told)
    models = [line.model for line in cells.lines() if line.cell.part.startswith("evaluate")]
    assert len({one.get("adapter_sha256") for one in models}) == 3
    assert len({one["weights_sha256"] for one in models}) == 1


def test_a_training_is_done_in_stretches_that_each_come_further(material: Material) -> None:
    made, small = local(material), study(material, stretch_cpu_s=1e-9, save_every=2, epochs=3)
    arm = small.arms(0, material)[2]
    steps = []
    while True:
        try:
            model = made.learned(small, arm, 0)
        except StretchOver as over:
            steps.append(over.done)
            continue
        break
    assert steps == sorted(set(steps)) and len(steps) > 1
    assert all(step % 2 == 0 for step in steps)
    assert [one["step"] for one in model.metrics() if "loss" in one] == [
        float(step) for step in range(1, model.file.training.steps + 1)
    ]


def test_a_teacher_is_the_model_of_the_settings(material: Material) -> None:
    arm = Arm("teacher", None, "teacher")
    with pytest.raises(ConfigurationError, match=r"\[model\]"), local(material).opened(study(material), arm, None):
        raise AssertionError


def test_an_arm_of_weights_alone_answers_with_the_base(material: Material) -> None:
    with local(material).opened(study(material), Arm("base", None), None) as model:
        said = model.complete([Message(role="user", content="Hi.")], Sampling(max_tokens=3, seed=1))
    assert said.model == "tiny" and "adapter_sha256" not in model.details
