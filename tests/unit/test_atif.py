"""ATIF documents: nothing of an attempt is lost in them, and the job folder around them says what Harbor asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from assets.resources import open_workshop
from pipeline.errors import ConfigurationError
from pipeline.exports.atif import IMPOSSIBLE, document
from pipeline.exports.atif_job import export_job
from pipeline.exports.recorded import RecordedAttempt, recorded_attempts
from pipeline.exports.tasks import NothingToExport
from pipeline.joined_rows import RowMissing
from pipeline.rows import instance_row, trajectory_row, verification_row
from pipeline.schemas import Row
from pipeline.tables import Store
from pipeline.terminal_environment import BATCH
from pipeline.types import Step, TaskInstance, Trajectory
from tests.unit.recorded_trials import HOSTILE, KINDS, attempt


def stored(store: Store, attempts: list[RecordedAttempt]) -> None:
    """The rows of attempts at one task, and one that broke off."""
    batch: Row = {"attempt": 1, "reason": ""}
    told = [
        {"trajectory_id": None, "instance_id": "i", "agent": "bash", "item_key": "broke-off", "steps": None} | batch
    ]
    rows = [trajectory_row(one.trajectory) | batch | {"item_key": one.trajectory.trajectory_id} for one in attempts]
    stamped = [row | {"recorded_at": one.recorded_at} for row, one in zip(rows, attempts, strict=True)]
    store.append("trajectories", [*told, *stamped], app_id="t", sequence=1)
    verdicts = [one.verdict for one in attempts if one.verdict is not None]
    judged = [verification_row(one) | batch | {"item_key": one.trajectory_id} for one in verdicts]
    store.append("verifications", judged, app_id="v", sequence=1)
    store.append("instances", [instance_row(attempts[0].instance) | batch | {"item_key": "i"}], app_id="i", sequence=1)


def kept(attempts: list[RecordedAttempt], folder: Path) -> list[RecordedAttempt]:
    """The attempts as the working tables give them back."""
    store = Store(folder)
    stored(store, attempts)
    return list(recorded_attempts(store))


def rebuilt(found: Mapping[str, Any]) -> Trajectory:
    """The attempt that a document is of."""
    agent, extra = found["agent"], found["extra"]
    interface = agent["extra"]["interface"]
    steps: list[Step] = []
    observation, calls = "", []
    for step in found["steps"]:
        shown = step.get("observation", {}).get("results", [{}])
        seen = shown[-1].get("content")
        if step["source"] == "system":
            observation = seen if seen is not None else observation
        elif step["source"] == "user":
            if (turn := step.get("extra", {}).get("turn")) is not None:
                steps[turn] = steps[turn].model_copy(update={"extra": steps[turn].extra | {"told": step["message"]}})
                observation = step["message"]
        else:
            call = _call(step)
            calls += [call] if call else []
            if call is not None and call["purpose"] == "summary":
                continue
            steps.append(_step(step, interface, observation, calls))
            observation, calls = seen or "", []
    return Trajectory(
        instance_id=extra["instance_id"],
        agent=agent["name"],
        model=agent.get("model_name"),
        sampling=agent["extra"]["sampling"],
        sample=extra["sample"],
        steps=tuple(steps),
        interface=interface,
        messages=tuple(extra["messages"]),
        details=agent["extra"]["details"],
        changes=extra["changes"],
        stop_reason=extra["stop_reason"],
        state_reference=extra["state_reference"],
        backend=extra["backend"],
    )


def _step(step: Mapping[str, Any], interface: str, observation: str, calls: list[dict[str, Any]]) -> Step:
    extra = dict(step["extra"])
    fields = {name: extra.pop(name, None) for name in ("turn", "seconds", "tokens", "exit_code", "handed_in")}
    arguments = [call["arguments"] for call in step.get("tool_calls", ())]
    typed = BATCH.dump_json(BATCH.validate_python(arguments)).decode() if interface == "terminal" else ""
    action = arguments and (typed or arguments[0]["command"])
    return Step(
        index=fields["turn"],
        observation=observation,
        thought=step.get("reasoning_content", "") if calls else step["message"],
        action=action or "",
        exit_code=fields["exit_code"],
        seconds=fields["seconds"],
        tokens=fields["tokens"],
        extra=({"calls": calls} if calls else {}) | extra,
    )


def _call(step: Mapping[str, Any]) -> dict[str, Any] | None:
    if "metrics" not in step:
        return None
    metrics = dict(step["metrics"])
    other = metrics.pop("extra")
    if (logprobs := metrics.get("logprobs")) is not None:
        metrics["logprobs"] = [float("-inf") if one == IMPOSSIBLE else one for one in logprobs]
    return {**metrics, **other, "model": step["model_name"], "answer": step["message"]}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_an_attempt_is_lost(kind: str, task: TaskInstance, tmp_path: Path) -> None:
    [row] = kept([attempt(kind, task)], tmp_path)
    text = json.dumps(document(row), allow_nan=False)
    assert rebuilt(json.loads(text)) == row.trajectory


def test_every_attempt_is_a_trial_of_its_own_name(task: TaskInstance, tmp_path: Path) -> None:
    outcomes = ("passed", "failed", "error", None, "passed", "failed")
    rows = kept([attempt(*pair[:1], task, outcome=pair[1]) for pair in zip(KINDS, outcomes, strict=True)], tmp_path)
    made = export_job(rows, tmp_path / "out")
    job = tmp_path / "out" / "touchstone"
    ids = {path.parent.parent.name: json.loads(path.read_text()) for path in job.glob("*/agent/trajectory.json")}
    assert set(ids) == set(made.trajectories) == {row.trajectory.trajectory_id for row in rows}
    assert all(found["trajectory_id"] == name for name, found in ids.items())
    result = json.loads((job / "result.json").read_text())
    assert (result["n_total_trials"], result["stats"]["n_errored_trials"]) == (len(KINDS), 1)


def test_the_verdict_is_with_the_attempt_and_with_each_test(task: TaskInstance, tmp_path: Path) -> None:
    [row] = kept([attempt("shell", task, outcome="failed")], tmp_path)
    assert row.verdict is not None
    export_job([row], tmp_path / "out")
    trial = tmp_path / "out" / "touchstone" / row.trajectory.trajectory_id
    found = json.loads((trial / "agent" / "trajectory.json").read_text())["extra"]["verdict"]
    assert found == row.verdict.model_dump(mode="json", exclude={"trajectory_id"})
    assert json.loads((trial / "result.json").read_text())["verifier_result"] == {"rewards": {"reward": 0}}
    [test] = json.loads((trial / "verifier" / "ctrf.json").read_text())["results"]["tests"]
    assert (test["name"], test["status"]) == ("test_state.py::test_count", "failed")


def test_an_attempt_that_could_not_be_judged_has_no_reward(task: TaskInstance, tmp_path: Path) -> None:
    [row] = kept([attempt("shell", task, outcome="error")], tmp_path)
    export_job([row], tmp_path / "out")
    trial = tmp_path / "out" / "touchstone" / row.trajectory.trajectory_id
    result = json.loads((trial / "result.json").read_text())
    assert result["exception_info"]["exception_type"] == "verifier_broken" and "verifier_result" not in result
    assert not (trial / "verifier" / "reward.json").exists()


def test_the_document_shows_neither_the_solution_nor_the_verifier(task: TaskInstance, tmp_path: Path) -> None:
    [row] = kept([attempt("shell", task)], tmp_path)
    text = json.dumps(document(row))
    assert task.solution[1] not in text and task.verifier.files[0].content.strip() not in text


def test_tokens_and_cost_are_summed_over_all_questions(task: TaskInstance) -> None:
    found = document(attempt("summary", task))["final_metrics"]
    assert (found["total_prompt_tokens"], found["total_cost_usd"]) == (5 * 40, 5 * 0.25)
    assert "total_prompt_tokens" not in document(attempt("fixed", task))["final_metrics"]


def test_halves_of_characters_do_not_stop_an_export(task: TaskInstance, tmp_path: Path) -> None:
    assert "\udcff" in HOSTILE
    made = export_job([attempt(kind, task) for kind in KINDS], tmp_path / "out")
    assert len(made.trajectories) == len(KINDS)


def test_only_ids_that_begin_so_are_exported(task: TaskInstance, tmp_path: Path) -> None:
    store = Store(tmp_path)
    attempts = [attempt(kind, task) for kind in KINDS]
    stored(store, attempts)
    wanted = attempts[3].trajectory.trajectory_id
    assert [row.trajectory.trajectory_id for row in recorded_attempts(store, wanted[:12])] == [wanted]


@pytest.mark.parametrize("form", ["atif", "asciicast"])
def test_the_command_writes_the_attempts_that_were_asked_for(form: str, task: TaskInstance, tmp_path: Path) -> None:
    attempts = [attempt(kind, task) for kind in KINDS]
    stored(Store(tmp_path / "data"), attempts)
    (tmp_path / "touchstone.toml").touch()
    place = ["--config", str(tmp_path / "touchstone.toml"), "--data", str(tmp_path / "data")]
    ids = sorted(one.trajectory.trajectory_id for one in attempts)
    for number, (options, expected) in enumerate([([], ids), (["--trajectory", ids[2][:12]], ids[2:3])]):
        open_workshop.cache_clear()
        command = ["export", form, str(tmp_path / f"out{number}"), "--json", *options, *place]
        done = CliRunner().invoke(touchstone, command, catch_exceptions=False)
        assert json.loads(done.stdout)["trajectories"] == expected
        assert sum(1 for path in (tmp_path / f"out{number}").rglob("traj-*")) == len(expected)


def test_what_is_not_there_is_said_and_leaves_no_folder(task: TaskInstance, tmp_path: Path) -> None:
    with pytest.raises(NothingToExport, match="touchstone run"):
        export_job([], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigurationError, match="not empty"):
        export_job([attempt("fixed", task)], tmp_path / "full")


def test_an_attempt_whose_task_was_removed_names_the_table(task: TaskInstance, tmp_path: Path) -> None:
    recorded = attempt("fixed", task)
    batch: Row = {"item_key": "a", "attempt": 1, "reason": "", "recorded_at": recorded.recorded_at}
    store = Store(tmp_path)
    store.append("trajectories", [trajectory_row(recorded.trajectory) | batch], app_id="t", sequence=1)
    with pytest.raises(RowMissing, match="the table instances"):
        list(recorded_attempts(store))
