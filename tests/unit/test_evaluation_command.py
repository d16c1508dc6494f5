"""Which instances `touchstone evaluate` takes, and what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assets.cli import touchstone
from assets.evaluating import config_of, name_of, policy_of
from assets.evaluation_figures import comparison_remarks, report_remarks
from assets.resources import open_workshop
from pipeline.curation.splits import SplitConfig, split_of
from pipeline.errors import ConfigurationError
from tests.unit.recorded_evaluations import RIGHT, WRONG, PlannedModel, evaluated, fill, planned, run
from tests.unit.test_models import ROW, published
from training.evaluate import Policy
from training.evaluation_compare import compare
from training.evaluation_folder import EvaluationFolder
from training.evaluation_report import evaluation_report
from training.evaluation_tasks import EvaluatedTask, Selection, chosen_tasks

SPLITS = SplitConfig(repositories=0.5, families=0.5)
IMPORTED = evaluated(planned("imported", family="games"), "tasks/some/imported", "tasks")


def many() -> list[EvaluatedTask]:
    """Enough of them that each split has some."""
    made = [planned(f"{family}{number}", family=family) for family in ("one", "two", "three") for number in range(8)]
    return [evaluated(each, f"own/{each.repository_id}") for each in made]


def ids(tasks: list[EvaluatedTask]) -> set[str]:
    return {task.instance_id for task in tasks}


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_split_is_that_of_the_published_rows_and_has_no_imported_tasks(tmp_path: Path, split: str) -> None:
    tasks = many()
    store = fill(tmp_path, [*tasks, IMPORTED])
    wanted = {
        task.instance_id
        for task in tasks
        if split_of(task.full_name, task.instance.domain, task.instance.family, SPLITS) == split
    }
    found = chosen_tasks(store, Selection.model_validate({"split": split}), SPLITS)
    assert ids(found) == wanted and 0 < len(wanted) < len(tasks)
    assert [task.instance for task in found] == [task.instance for task in sorted(found, key=lambda t: t.instance_id)]


def test_families_sources_ids_and_a_limit_choose(tmp_path: Path) -> None:
    tasks = many()
    store = fill(tmp_path, [*tasks, IMPORTED])

    def chosen(**asked: object) -> list[EvaluatedTask]:
        return chosen_tasks(store, Selection.model_validate(asked), SPLITS)

    assert {task.instance.family for task in chosen(families=["one", "two"])} == {"one", "two"}
    assert ids(chosen(source="tasks")) == {IMPORTED.instance_id}
    two = {tasks[0].instance_id, IMPORTED.instance_id}
    assert ids(chosen(instances=sorted(two))) == two
    assert [task.instance_id for task in chosen(limit=3)] == sorted(ids([*tasks, IMPORTED]))[:3]
    with pytest.raises(ConfigurationError, match=r"none of 25 admitted instances is asked for \(families = \['x'\]\)"):
        chosen(families=["x"])
    with pytest.raises(ConfigurationError, match="no admitted instance task-none"):
        chosen(instances=["task-none"])


def test_near_copies_are_left_out_but_for_those_of_a_benchmark(tmp_path: Path) -> None:
    store = fill(tmp_path, [evaluated(planned("a")), IMPORTED], selected=False)
    assert ids(chosen_tasks(store, Selection(), SPLITS)) == {IMPORTED.instance_id}
    kept_out = {"instance_id": IMPORTED.instance_id, "decision": "drop", "item_key": "x", "attempt": 1, "reason": ""}
    store.append("contaminations", [kept_out], app_id="test", sequence=1)
    assert ids(chosen_tasks(store, Selection(source="tasks"), SPLITS)) == {IMPORTED.instance_id}


def command(options: list[str], *arguments: str) -> Result:
    return CliRunner().invoke(touchstone, ["evaluate", *options, *arguments], catch_exceptions=True)


@pytest.fixture
def data(options: list[str]) -> Path:
    """With two evaluations of two instances."""
    data = Path(options[-1])
    tasks = [evaluated(planned(name), f"own/{name}") for name in "xy"]
    for name, plan in (("before", WRONG), ("after", RIGHT)):
        model = PlannedModel({"x": [plan], "y": [RIGHT]}, details={"weights": name})
        run(data, tasks, model, name=name)
    return data


def test_a_report_is_shown_and_drawn(options: list[str], data: Path) -> None:
    shown = command(options, "--report", "before")
    assert shown.exit_code == 0, shown.output
    assert "pass@k" in shown.output and "by family" in shown.output
    assert (data / "evaluations" / "before" / "pass_at_k.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(command(options, "--report", "before", "--json").output)
    assert told["benchmarks"][0]["pass_at_k"]["1"]["mean"] == 0.5


def test_two_evaluations_are_compared(options: list[str], data: Path) -> None:
    shown = command(options, "--compare", "before", "after")
    assert shown.exit_code == 0 and "+0.500" in shown.output
    told = json.loads(command(options, "--compare", "before", "after", "--json").output)
    assert (told["a"], told["b"], told["benchmarks"][0]["overall"]["better"]) == ("before", "after", 1)
    (differing, left, _) = comparison_remarks(compare(*(EvaluationFolder(data, name) for name in ("before", "after"))))
    assert differing == "they differ in details.weights: before and after" and left.startswith("0 instances")


def test_remarks_say_what_is_not_known_and_what_is_not_counted(tmp_path: Path) -> None:
    tasks = [evaluated(planned(name), f"own/{name}") for name in "xy"]
    run(tmp_path, tasks, PlannedModel({"x": [RIGHT], "y": [ValueError("no name")]}))
    (policy, few, at_least, held) = report_remarks(evaluation_report(EvaluationFolder(tmp_path, "one")))
    assert policy == "bash with planned, temperature 0.7, at most 50 steps, 1 runs"
    assert few == "intervals over fewer than 30 instances are too narrow: touchstone"
    assert "1 attempts have no result" in at_least and "pass@1 were 0.500" in at_least
    assert "not known here" in held
    nameless = PlannedModel({"x": [RIGHT], "y": [RIGHT]})
    nameless.details = {}
    run(tmp_path, tasks, nameless, name="two")
    (_, weights, *_) = report_remarks(evaluation_report(EvaluationFolder(tmp_path, "two")))
    assert weights.startswith("the server says nothing of its weights")


def test_an_evaluation_without_a_model_is_refused_and_the_remedy_named(options: list[str]) -> None:
    end = command(options)
    assert isinstance(end.exception, ConfigurationError) and "--local-model" in str(end.exception)


def test_an_evaluation_of_a_trained_model_reads_what_it_was_trained_on(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "touchstone.toml").write_text('[model]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "tiny"\n')
    workshop = open_workshop(config=tmp_path / "touchstone.toml", data=tmp_path / "data")
    version = published(workshop.data)
    policy = policy_of(workshop, "sft", None, None)
    assert (policy.trained_model, policy.trained, policy.model.name) == (version.reference, [ROW], "tiny")
    assert policy_of(workshop, None, None, None).trained is None
    with pytest.raises(ConfigurationError, match="there is no model 'sft@v0002'"):
        policy_of(workshop, "sft@v0002", None, None)


def test_weights_are_named_for_an_adapter_of_ours_alone(options: list[str], tmp_path: Path) -> None:
    for others in ([], ["--model", "sft", "--local-model", "smollm2"]):
        end = command(options, "--base", str(tmp_path), *others)
        assert end.exit_code == 2 and "--base goes with --model" in end.output


def test_settings_are_those_of_rollouts_but_for_what_is_chosen(options: list[str], tmp_path: Path) -> None:
    text = "[rollout]\nmax_steps = 7\nmax_seconds = 5\n[rollout.samples]\nmax_tokens = 99\n"
    (tmp_path / "touchstone.toml").write_text(text)
    workshop = open_workshop(config=tmp_path / "touchstone.toml", data=tmp_path / "data")
    found = config_of(workshop, "terminus", 2, None, None)
    assert (found.budgets.max_steps, found.budgets.max_seconds, found.max_tokens) == (7, 5.0, 99)
    assert (found.agent, found.runs, found.temperature) == ("terminus", 2, 0.7)
    changed = config_of(workshop, "bash", 2, 0.0, 3)
    assert (changed.budgets.max_steps, changed.temperature) == (3, 0.0)


def test_an_evaluation_without_a_name_has_one_of_its_own(options: list[str], tmp_path: Path) -> None:
    workshop = open_workshop(config=tmp_path / "touchstone.toml", data=tmp_path / "data")
    config = config_of(workshop, "bash", 2, None, None)
    model = PlannedModel({})
    model.name = "Org/Model 7B"
    assert name_of(Policy(model), config, Selection(split="test")) == "org-model-7b-bash-test"
    named = name_of(Policy(model, "sft@v0001", []), config, Selection(source="tasks", families=("a", "b")))
    assert named == "sft-v0001-bash-tasks-a-b"
    EvaluationFolder(tmp_path, named)
