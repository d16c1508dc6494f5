"""`touchstone report tokens`: along which paths it counts, with which tokenizer, and what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assets.report import report
from pipeline.agents import FIXED
from pipeline.agents.wander import WanderingAgent
from pipeline.attempts import Attempt
from pipeline.journal import Journal
from pipeline.tables import Store
from tests.unit.games import lamp_task
from tests.unit.small_tokenizer import small_tokenizer
from tests.unit.test_games import attempted

KEYS = {"trajectories", "flat", "hrl", "step_hrl", "step_hrl_without_progress_calls", "per_step"}


@pytest.fixture
def place(options: list[str]) -> list[str]:
    """Options that name a data folder with gold paths of two templates of the game, a second one of the first template,
    one of another game, and an attempt that strays."""
    folder = Path(options[-1]) / "environments"
    Journal(folder).close()
    tasks = [lamp_task("0"), lamp_task("1"), lamp_task("2"), lamp_task("10")]
    for number, (game, family) in enumerate(
        (("scienceworld", "take"), ("scienceworld", "carry"), ("lamps", "take"), ("scienceworld", "take"))
    ):
        told = tasks[number].provenance | {"environment": game}
        tasks[number] = tasks[number].model_copy(update={"provenance": told, "family": family})
    oracle = FIXED["oracle"]
    attempts = [Attempt(task, oracle, 0) for task in tasks] + [Attempt(tasks[0], WanderingAgent(0), 0)]
    attempted(Store(folder), attempts, tasks)
    return options


def told(place: list[str], *arguments: str, code: int = 0) -> Result:
    answer = CliRunner().invoke(report, ["tokens", *arguments, *place], env={"COLUMNS": "200"})
    assert answer.exit_code == code, answer.output
    return answer


def test_json_has_the_promised_names_and_counts_the_experts_of_that_game_alone(
    place: list[str], tmp_path: Path
) -> None:
    answer = told(place, "--json", "--tokenizer", str(small_tokenizer(tmp_path / "tokenizer")))
    assert answer.stdout.count("\n") == 1
    found = json.loads(answer.stdout)
    assert found.keys() >= KEYS
    assert found["trajectories"] == 2
    assert list(found["per_step"]) == ["1", "2", "3"]
    assert {"flat", "hrl", "step_hrl", "n"} == set(found["per_step"]["1"])
    assert found["step_hrl"] > found["step_hrl_without_progress_calls"] > 0
    assert found["latency"]["per_step"].keys() == found["per_step"].keys()


def test_tables_stand_beside_the_paper_and_the_plot_is_a_picture(place: list[str], tmp_path: Path) -> None:
    small_tokenizer(tmp_path / "tokenizer")
    (tmp_path / "touchstone.toml").write_text('[dataset]\ntokenizer = "tokenizer"\n')
    answer = told(place, "--plot", str(tmp_path / "steps.png"))
    for shown in ("2 gold paths", "17,800", "13,322", "STEP-HRL", "nothing is said of late ones", "qwen.gguf"):
        assert shown in answer.stdout
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_missing_is_said_with_its_remedy(options: list[str], place: list[str], tmp_path: Path) -> None:
    assert "training.qwen_tokenizer" in str(told(place, code=1).exception)
    tokenizer = str(small_tokenizer(tmp_path / "tokenizer"))
    empty = [*options[:-1], str(tmp_path / "empty")]
    assert "environments play" in str(told(empty, "--tokenizer", tokenizer, code=1).exception)
    assert "cannot be written" in str(
        told(place, "--tokenizer", tokenizer, "--plot", str(tmp_path / "no" / "x.png"), code=1).exception
    )
