"""`touchstone train`, `touchstone models` and the asset sft_model, with a tiny model on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from assets.definitions import defs
from assets.resources import WorkshopResource
from assets.run_tags import SNAPSHOT
from assets.training_packages import need_training_packages
from pipeline.errors import ConfigurationError
from pipeline.schemas import Row
from tests.unit.hostile_rows import Chat, verified_row, version_of
from tests.unit.tiny_model import tiny_model
from training.models import find_model

HOW = """
[sft]
base = "tiny"
max_tokens = 256
epochs = 4
learning_rate = 0.01
gradient_accumulation = 2
precision = "fp32"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with touchstone.toml, how to train, a tiny model, and a data folder with a version."""
    folder = tmp_path_factory.mktemp("project")
    rows = [row(f"train {number}") for number in range(4)]
    version_of(folder / "data/snapshots/terminal/v0001", rows, validation=[row("held")], test=[row("kept")])
    tiny_model(folder / "tiny")
    (folder / "sft.toml").write_text(HOW)
    (folder / "touchstone.toml").write_text('[training]\nsft = "sft.toml"\nmodel = "small"\n')
    return folder


def row(name: str) -> Row:
    chat: Chat = [
        {"role": "user", "content": f"List the files of {name}."},
        {"role": "assistant", "content": "```bash\nls\n```"},
    ]
    return verified_row(name, chat=chat)


def told(project: Path, *arguments: str) -> list[str]:
    return [*arguments, "--config", str(project / "touchstone.toml")]


def test_a_model_is_trained_by_the_command_line_and_listed(project: Path) -> None:
    runner = CliRunner()
    made = runner.invoke(touchstone, told(project, "train", str(project / "sft.toml"), "--name", "by-hand", "--json"))
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout.splitlines()[-1])
    assert (found["model"], found["snapshot"], found["rows"]) == ("by-hand@v0001", "terminal@v0001", 4)
    listed = json.loads(runner.invoke(touchstone, told(project, "models", "--json")).stdout)
    assert {name: one[name] for one in listed if one["model"] == "by-hand@v0001" for name in ("steps", "rows")} == {
        "steps": found["steps"],
        "rows": 4,
    }
    table = runner.invoke(touchstone, told(project, "models", "by-hand")).stdout
    assert "by-hand@v0001" in table and "adapter" in table


def test_a_model_that_is_not_there_is_named(project: Path) -> None:
    ended = CliRunner().invoke(touchstone, told(project, "models", "nothing"))
    assert ended.exit_code == 1 and "there is no model 'nothing'" in ended.output


def materialized(project: Path, tags: dict[str, str]) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def("train_sft_model").execute_in_process(
        resources={"workshop": WorkshopResource(config=str(project / "touchstone.toml"))},
        tags=tags,
        raise_on_error=False,
    )


def test_the_asset_trains_on_the_version_that_its_run_names_and_shows_how_that_went(project: Path) -> None:
    result = materialized(project, {SNAPSHOT: "terminal@v0001"})
    assert result.success
    (event,) = result.asset_materializations_for_node("sft_model")
    shown = {name: value.value for name, value in event.metadata.items()}
    model = find_model(project / "data", "small")
    assert shown["model"] == model.reference == "small@v0001"
    assert shown["dagster/row_count"] == 4
    assert "data:image/png;base64," in str(shown["loss"])
    checks = {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
    assert checks == {"model_reads_back": True, "only_train_rows_are_learned": True, "loss_fell": True}


def test_a_version_that_is_not_there_fails_the_asset_with_its_name(project: Path) -> None:
    result = materialized(project, {SNAPSHOT: "terminal@v0009"})
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "terminal@v0009" in str(failure.step_failure_data.error)


def test_without_a_file_that_says_how_the_asset_names_the_setting(project: Path, tmp_path: Path) -> None:
    (tmp_path / "touchstone.toml").write_text("")
    result = materialized(tmp_path, {})
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "`sft` of [training]" in str(failure.step_failure_data.error)


def test_packages_that_are_missing_are_named_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="training needs no_such_package"):
        need_training_packages(("json", "no_such_package"))
