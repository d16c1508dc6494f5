"""What `touchstone experiment` lists, refuses and shows; cells themselves are done in test_small_sft.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assets.cli import touchstone
from assets.experiment_figures import write_arms_plot
from assets.experiments import RESULTS, command_of, study_of, write_result
from pipeline.errors import ConfigurationError
from training.cells import Cell, CellLine, Cells
from training.studies.comparisons.registry import COMPARISONS
from training.studies.planning import ArmPlan, StudyPlan
from training.studies.registry import STUDIES
from training.studies.results import PLAN_CELL


def command(*arguments: str) -> Result:
    return CliRunner().invoke(touchstone, ["experiment", *arguments], catch_exceptions=True)


def settings(folder: Path, text: str = "") -> Path:
    file = folder / "sizes.toml"
    file.write_text(f'rows = 5\n{text}\n[learning]\nbase = "weights"\n[acting]\ngguf = "weights.gguf"\n')
    return file


def finished(folder: Path) -> None:
    """Lines of an experiment of two arms, one of which learned and passed more often."""
    told = study_of("small_sft", settings(folder)).config
    config = told.model_dump(mode="json", exclude={"learning": {"base"}, "acting": {"gguf"}})
    arms = {
        name: ArmPlan(rows=rows, n_tokens=10 * rows, rows_sha256="x", families={}, domains={})
        for name, rows in (("base", 0), ("1x", 5))
    }
    plan = StudyPlan(
        name="small_sft",
        config=config,
        versions={"terminal@v0001": "0"},
        base_sha256="0",
        gguf_sha256=None,
        held_out=("checksum",),
        arms={"0": arms},
        instances={"touchstone": {"one": "checksum", "two": "checksum"}},
    )
    cells = Cells(folder / "small_sft/cells.jsonl")

    def add(cell: Cell, figures: dict[str, object]) -> None:
        line = {"setting": plan.setting, "cell": cell, "seconds": 1.0, "code_commit": "abc", "figures": figures}
        cells.add(CellLine.model_validate(line))

    add(PLAN_CELL, {"command": "touchstone experiment small_sft", "plan": plan.model_dump(mode="json")})
    add(Cell(arm="1x", seed=0, environment="all", part="train"), {"losses": [[1, 2.0], [2, 1.0]], "steps": 2})
    for arm, passed in (("base", 1), ("1x", 4)):
        results = [{"name": name, "family": "checksum", "judged": 4, "passed": passed} for name in ("one", "two")]
        add(Cell(arm=arm, seed=0, environment="touchstone", part="evaluate-00"), {"instances": results})


def test_without_a_name_the_experiments_are_listed() -> None:
    lines = command().output.splitlines()
    assert [line.partition(":")[0] for line in lines] == [*STUDIES, *COMPARISONS]


def test_a_report_makes_result_and_picture_of_the_lines(tmp_path: Path) -> None:
    finished(tmp_path)
    done = command("small_sft", "--report", "--results", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output.splitlines()[-1])
    assert told == json.loads((tmp_path / "small_sft/result.json").read_text())
    assert told["command"] == "touchstone experiment small_sft" and told["seeds"] == [0]
    arms = told["arms"]["touchstone"]
    assert arms["base"]["pass_at_k"]["1"]["mean"] == 0.25
    assert arms["1x"]["difference"]["difference"] == 0.75
    picture = (tmp_path / "small_sft/plot.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 60_000


def test_curves_of_several_attempts_are_another_picture(tmp_path: Path) -> None:
    finished(tmp_path)
    folder = tmp_path / "small_sft"
    found = write_result(STUDIES["small_sft"], folder, None)
    write_arms_plot(found, folder / "curves.png", curves=True)
    assert (folder / "curves.png").read_bytes() != (folder / "plot.png").read_bytes()


def test_a_command_is_kept_without_places_of_the_machine() -> None:
    said = command_of("small_sft", settings=Path("/home/me/sizes.toml"), base=Path("/models/small"), gguf=None)
    assert said == "touchstone experiment small_sft --settings sizes.toml --base small"


def test_paths_of_settings_are_relative_to_their_file(tmp_path: Path) -> None:
    found = study_of("small_sft", settings(tmp_path)).config
    assert (found.learning.base, found.acting.gguf) == (tmp_path / "weights", tmp_path / "weights.gguf")
    other = study_of("small_sft", settings(tmp_path), Path("/other"), Path("/other.gguf")).config
    assert (other.learning.base, other.acting.gguf) == (Path("/other"), Path("/other.gguf"))


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("nothing", "", "there is no experiment 'nothing'; there are small_sft"),
        ("small_sft", "row = 3", r"sizes.toml: row: Extra inputs"),
        ("small_sft", "seeds = []", r"sizes.toml: seeds: "),
        ("small_sft", "learning = 3", r"sizes.toml: "),
        ("small_sft", "[", r"sizes.toml: "),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, name: str, text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        study_of(name, settings(tmp_path, text))


@pytest.mark.parametrize("name", list(STUDIES))
def test_the_committed_sizes_are_settings_of_their_experiments(name: str) -> None:
    files = list((RESULTS / name).glob("*.toml"))
    found = [study_of(name, file, Path("/weights")) for file in files]
    assert found and {(one.name, one.config.learning.base) for one in found} == {(name, Path("/weights"))}


def test_without_settings_the_weights_are_asked_for() -> None:
    with pytest.raises(ConfigurationError, match=r"learning\.base: Field required"):
        study_of("small_sft", None)


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    done = command("small_sft", "--report", "--results", str(tmp_path))
    assert isinstance(done.exception, ConfigurationError) and "no plan yet" in str(done.exception)
