"""An evaluation makes each attempt once, goes on where it was stopped, and is of one policy."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline.batch
from pipeline.errors import ConfigurationError
from pipeline.llm.protocol import ModelUnavailable
from pipeline.schemas import to_rows
from pipeline.tables import Store
from sandbox.errors import VerifierBroken
from tests.unit.recorded_evaluations import RIGHT, WRONG, PlannedBackend, PlannedModel, evaluated, planned, run
from training.evaluate import Policy
from training.evaluation_folder import EvaluationFolder
from training.evaluation_report import evaluation_report
from training.evaluation_tasks import Selection
from training.trained_on import TrainedRow

A, B = evaluated(planned("a")), evaluated(planned("b"))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What our machinery breaks is tried a second time without a pause."""
    monkeypatch.setattr(pipeline.batch, "BACKOFF_S", 0.0)


def outcomes(data: Path, name: str = "one") -> list[str]:
    rows = to_rows(EvaluationFolder(data, name).store.current("verifications", ["outcome"]))
    return sorted(str(row["outcome"]) for row in rows)


def test_every_instance_is_attempted_as_often_as_asked_whatever_came_of_the_others(tmp_path: Path) -> None:
    model = PlannedModel({"a": [RIGHT] * 3, "b": [WRONG, RIGHT, WRONG]})
    backend = PlannedBackend()
    found = run(tmp_path, [A, B], model, runs=3, backend=backend)
    assert (found.instances, found.runs) == ((A.instance_id, B.instance_id), 3)
    assert outcomes(tmp_path) == ["failed", "failed", "passed", "passed", "passed", "passed"]
    assert len(set(model.seeds)) == 6 and None not in model.seeds
    assert backend.states() == set()


def test_nothing_of_it_is_in_the_tables_that_are_published(tmp_path: Path) -> None:
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}))
    assert Store(tmp_path).files("trajectories") == []
    assert not (tmp_path / "tables").exists()


def test_the_same_call_again_does_nothing_and_more_runs_come_on_top(tmp_path: Path) -> None:
    run(tmp_path, [A], PlannedModel({"a": [RIGHT, WRONG]}), runs=2)
    unasked = PlannedModel({"a": []})
    assert run(tmp_path, [A], unasked, runs=2).runs == 2
    assert unasked.seeds == []
    more = PlannedModel({"a": [RIGHT, RIGHT]})
    assert run(tmp_path, [A], more, runs=4).runs == 4
    assert len(more.seeds) == 2 and outcomes(tmp_path) == ["failed", "passed", "passed", "passed"]
    assert run(tmp_path, [A], unasked, runs=1).runs == 4


def test_what_was_done_before_a_stop_is_not_done_again(tmp_path: Path) -> None:
    stopped = PlannedModel({"a": [RIGHT], "b": [ConfigurationError("the key is wrong")]})
    with pytest.raises(ConfigurationError, match="the key"):
        run(tmp_path, [A, B], stopped)
    again = PlannedModel({"a": [], "b": [WRONG]})
    run(tmp_path, [A, B], again)
    assert len(again.seeds) == 1 and outcomes(tmp_path) == ["failed", "passed"]


def test_what_is_evaluated_stays_as_it_was_when_it_began(tmp_path: Path) -> None:
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}))
    found = run(tmp_path, [A, B], PlannedModel({"a": [RIGHT]}), runs=2)
    assert found.instances == (A.instance_id,)
    assert [one.instance for one in EvaluationFolder(tmp_path, "one").tasks(found)] == [A.instance]


def test_attempts_that_our_machinery_broke_are_no_results_and_are_tried_again(tmp_path: Path) -> None:
    down = ModelUnavailable("the server is gone")
    run(tmp_path, [A, B], PlannedModel({"a": [RIGHT, RIGHT], "b": [down, down, WRONG]}), runs=2)
    (figures,) = evaluation_report(EvaluationFolder(tmp_path, "one")).benchmarks
    assert (figures.begun, figures.judged, figures.passed) == (4, 3, 2)
    assert figures.failures["infrastructure"] == {"infrastructure": 1}
    assert (figures.pass_at_k[1].mean, figures.pass_at_1_at_least) == (0.5, 0.5)
    assert {k: mean.n for k, mean in figures.pass_at_k.items()} == {1: 2, 2: 1}
    run(tmp_path, [A, B], PlannedModel({"a": [], "b": [RIGHT]}), runs=2)
    (figures,) = evaluation_report(EvaluationFolder(tmp_path, "one")).benchmarks
    assert (figures.judged, figures.passed, figures.failures["infrastructure"]) == (4, 3, {})


def test_a_verifier_that_broke_is_no_result_and_is_asked_again(tmp_path: Path) -> None:
    backend = PlannedBackend(VerifierBroken("it crashed"))
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}), backend=backend)
    (figures,) = evaluation_report(EvaluationFolder(tmp_path, "one")).benchmarks
    assert (figures.judged, figures.failures["environment"]) == (0, {"verifier_broken": 1})
    assert (figures.pass_at_k, figures.pass_at_1_at_least) == ({}, 0.0)
    run(tmp_path, [A], PlannedModel({"a": []}), backend=backend)
    assert outcomes(tmp_path) == ["passed"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"agent": "terminus"}, "policy .*agent: bash and terminus"),
        ({"temperature": 0.2}, "policy .*temperature: 0.7 and 0.2"),
        ({"budgets": {"max_steps": 3}}, "policy .*budgets.max_steps: 50 and 3"),
        ({"selection": Selection(limit=3)}, "selection .*limit: None and 3"),
    ],
)
def test_another_policy_or_selection_needs_another_name(tmp_path: Path, change: dict[str, object], named: str) -> None:
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}))
    with pytest.raises(ConfigurationError, match=named) as refused:
        run(tmp_path, [A], PlannedModel({"a": [RIGHT]}), **change)  # type: ignore[arg-type]
    assert "another --name" in str(refused.value)


def test_other_weights_are_another_policy_though_their_name_is_the_same(tmp_path: Path) -> None:
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}))
    with pytest.raises(ConfigurationError, match=r"details\.weights: sha256:1 and sha256:2"):
        run(tmp_path, [A], PlannedModel({"a": [RIGHT]}, details={"weights": "sha256:2"}))
    with pytest.raises(ConfigurationError, match="trained_model: None and sft@v0001"):
        run(tmp_path, [A], Policy(PlannedModel({"a": [RIGHT]}), "sft@v0001", []))


def test_it_is_told_who_was_evaluated_how_and_by_which_code(tmp_path: Path) -> None:
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}), temperature=0.3)
    run(tmp_path, [A], PlannedModel({"a": []}), temperature=0.3, code_commit="def")
    found = EvaluationFolder(tmp_path, "one").read()
    policy = found.policy
    assert (policy.agent, policy.model, policy.temperature, policy.budgets.max_steps) == ("bash", "planned", 0.3, 50)
    assert policy.details["weights"] == "sha256:1" and len(policy.details["bash_task_sha256"]) == 64
    assert found.code_commits == ("abc", "def")


def test_two_evaluations_of_one_policy_draw_with_other_seeds(tmp_path: Path) -> None:
    models = [PlannedModel({"a": [RIGHT]}) for _ in range(3)]
    for name, model, data in zip(("one", "two", "one"), models, ("x", "x", "y"), strict=True):
        run(tmp_path / data, [A], model, name=name)
    assert models[0].seeds == models[2].seeds != models[1].seeds


def trained(instance_id: str, instruction: str) -> TrainedRow:
    return TrainedRow("traj-1", instance_id, instruction, "other/tool", "created_file")


def test_an_instance_that_was_trained_on_is_left_out_and_named(tmp_path: Path) -> None:
    rows = [trained(A.instance_id, "Other.")]
    found = run(tmp_path, [A, B], Policy(PlannedModel({"b": [RIGHT]}), "sft@v0001", rows))
    assert found.instances == (B.instance_id,)
    held = evaluation_report(EvaluationFolder(tmp_path, "one")).held_out
    assert held is not None and held.left_out == {A.instance_id}
    assert (held.same_repository, held.same_family) == (0.0, 1.0)


def test_an_evaluation_of_nothing_but_what_was_trained_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="sft@v0001 was trained on all 1 instances"):
        run(tmp_path, [A], Policy(PlannedModel({}), "sft@v0001", [trained(A.instance_id, "Other.")]))
    assert not EvaluationFolder(tmp_path, "one").begun


@pytest.mark.parametrize("name", ["../one", "One", "", ".one"])
def test_a_name_is_that_of_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="a name has"):
        EvaluationFolder(tmp_path, name)


def test_an_evaluation_that_is_not_there_is_named_and_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no evaluation 'one'; `touchstone evaluate`"):
        evaluation_report(EvaluationFolder(tmp_path, "one"))
    run(tmp_path, [A], PlannedModel({"a": [RIGHT]}), name="two")
    with pytest.raises(ConfigurationError, match="no evaluation 'one'; there are two"):
        evaluation_report(EvaluationFolder(tmp_path, "one"))
