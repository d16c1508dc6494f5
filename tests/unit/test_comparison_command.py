"""`touchstone experiment` with a comparison: what it is told, refuses, writes and shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assets.cli import touchstone
from assets.comparing import comparison_command, config_of
from assets.comparison_figures import write_comparison_plot
from pipeline.errors import ConfigurationError
from tests.unit.scripted_comparison import scripted
from training.cells import Cells
from training.studies.comparisons.registry import COMPARISONS
from training.studies.comparisons.results import ComparisonResult, result_of


@pytest.fixture(autouse=True)
def with_scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMPARISONS, "scripted", scripted())


def command(folder: Path, *arguments: str) -> Result:
    places = ["--data", str(folder / "data"), "--results", str(folder / "results")]
    return CliRunner().invoke(
        touchstone, ["experiment", *arguments, *places], catch_exceptions=True, env={"COLUMNS": "250"}
    )


def test_cells_are_done_and_a_table_a_result_and_a_picture_are_made(tmp_path: Path) -> None:
    done = command(tmp_path, "scripted", "--arms", "oracle,more_bc,grpo", "--seeds", "0,1", "--budget", "2000")
    assert done.exit_code == 0, done.output
    line = next(line for line in done.output.splitlines() if "grpo" in line and "│" in line)
    seen, unseen, apart, *spent = [part.strip() for part in line.split("│")[3:-1]]
    assert seen == "1.000 [0.158, 1.000]"
    assert unseen.startswith("0.875 [") and apart.startswith("+0.500 [")
    assert spent == ["15", "600", "350", "30", "2"]
    assert "Others" in done.output and "not run" in done.output
    found = ComparisonResult.model_validate_json((tmp_path / "results/scripted/result.json").read_text())
    assert found.command == "touchstone experiment scripted --arms oracle,more_bc,grpo --seeds 0,1 --budget 2000"
    assert (found.seeds, found.budget, found.cells_done) == ((0, 1), 2000, 6)
    picture = (tmp_path / "results/scripted/plot.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 90_000


def test_an_unfinished_comparison_says_so_and_goes_on(tmp_path: Path) -> None:
    told = ("scripted", "--arms", "more_bc,bc,grpo", "--seeds", "0,1")
    done = command(tmp_path, *told, "--cells", "4")
    assert done.exit_code == 0 and "4 of 6 cells are done" in done.output
    rows = {line.split("│")[1].strip(): line for line in done.output.splitlines() if line.count("│") > 5}
    assert "│ unfinished, 1 of 2 │" in rows["more_bc"] and "│ 2     " in rows["bc"]
    again = command(tmp_path, *told, "--json")
    assert again.exit_code == 0 and json.loads(again.output.splitlines()[-1])["cells_done"] == 6


def test_an_arm_without_cells_has_no_figure_in_table_or_picture(tmp_path: Path) -> None:
    done = command(tmp_path, "scripted", "--arms", "bc,grpo", "--seeds", "0", "--cells", "1")
    row = next(line for line in done.output.splitlines() if "unfinished, 0 of 1" in line)
    assert "grpo" in row and "0.0" not in row
    before = (tmp_path / "results/scripted/plot.png").read_bytes()
    assert command(tmp_path, "scripted", "--report").exit_code == 0
    assert (tmp_path / "results/scripted/plot.png").read_bytes() == before


def test_the_picture_is_of_each_environment(tmp_path: Path) -> None:
    settings = tmp_path / "sizes.toml"
    settings.write_text('environments = ["maze", "hall"]\n')
    done = command(tmp_path, "scripted", "--arms", "oracle,bc", "--settings", str(settings))
    assert done.exit_code == 0, done.output
    found = result_of(scripted(), Cells(tmp_path / "results/scripted/cells.jsonl"))
    assert list(found.environments) == ["maze", "hall"]
    one = found.model_copy(update={"environments": {"maze": found.environments["maze"]}})
    write_comparison_plot(one, tmp_path / "one.png")
    assert len((tmp_path / "one.png").read_bytes()) < len((tmp_path / "results/scripted/plot.png").read_bytes())


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("scripted", "--arms", "dreams"), "scripted has no arm 'dreams'; there are oracle, bc"),
        (("scripted", "--arms", "bc,"), "scripted has no arm ''"),
        (("scripted", "--seeds", "one"), r"without --settings: seeds\.0: Input should be a valid integer"),
        (("scripted", "--seeds", "-1"), r"seeds\.0: Input should be greater than or equal to 0"),
        (("scripted", "--arms", "react"), "arms react answer from a GGUF file"),
        (("scripted", "--base", "."), "--base cannot be given with scripted"),
        (("scripted", "--report", "--budget", "3"), "--budget cannot be given with scripted: --report is of all"),
        (("scripted", "--report"), "no plan yet; `touchstone experiment scripted` makes one"),
        (("small_sft", "--arms", "base"), "--arms cannot be given with small_sft"),
        (("small_sft", "--seeds", "0", "--budget", "5"), "--seeds and --budget cannot be given with small_sft"),
        (("nothing", "--arms", "bc"), "there is no experiment 'nothing'; there are small_sft, .*baselines"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, arguments: tuple[str, ...], fault: str) -> None:
    done = command(tmp_path, *arguments)
    assert isinstance(done.exception, ConfigurationError)
    with pytest.raises(ConfigurationError, match=fault):
        raise done.exception
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("budget", ["0", "-5", "many"])
def test_a_budget_is_a_positive_number(tmp_path: Path, budget: str) -> None:
    assert "Invalid value for '--budget'" in command(tmp_path, "scripted", "--budget", budget).output


def test_options_come_before_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "sizes.toml"
    settings.write_text('budget = 5\nseeds = [7]\nunseen = 3\ngguf = "weights.gguf"\n')
    told = config_of(scripted(), settings, None, {"arms": "bc, grpo", "seeds": None, "budget": 9})
    assert (told.arms, told.seeds, told.budget, told.gguf) == (("bc", "grpo"), (7,), 9, tmp_path / "weights.gguf")
    with pytest.raises(ConfigurationError, match=r"sizes\.toml: steps: Extra inputs"):
        settings.write_text("steps = 5")
        config_of(scripted(), settings, None, {})


def test_a_command_is_kept_without_places_of_the_machine() -> None:
    said = comparison_command("scripted", None, Path("/models/small.gguf"), {"arms": "bc", "seeds": None, "budget": 9})
    assert said == "touchstone experiment scripted --gguf small.gguf --arms bc --budget 9"


def test_the_baselines_are_those_of_the_papers_and_one_is_compared_to() -> None:
    found = COMPARISONS["baselines"]
    groups = {arm: (facts.group, facts.backbone) for arm, facts in found.arms.items()}
    assert [arm for arm, told in groups.items() if told == ("bound", "tiny")] == ["random", "oracle"]
    assert [arm for arm, told in groups.items() if told == ("prompted", "gguf")] == ["react", "reflexion", "adapt"]
    assert groups[found.compared_to] == ("learned", "tiny") and len(groups) == 16
    assert found.config().seeds == (0, 1, 2)  # type: ignore[call-arg]  # that of a comparison has defaults
