"""A run whose process was killed is ended, so that neither the UI nor the queue takes it for a running one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.lost_runs import end_lost_runs, hold, lost_runs
from assets.resources import WorkshopResource, open_workshop
from pipeline.tables import Store

PROJECT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from pathlib import Path
from assets.lost_runs import hold
from pipeline.tables import Store
hold(Store(Path(sys.argv[1])), sys.argv[2])
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def begun(instance: dg.DagsterInstance) -> str:
    @dg.job
    def work() -> None: ...

    run = instance.create_run_for_job(work)
    instance.report_engine_event("begun", run)
    instance.handle_run_event(run.run_id, dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name))
    return run.run_id


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_run_is_ended_when_its_process_was_killed_and_not_before(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    store, run_id = Store(tmp_path), begun(instance)
    command = [sys.executable, "-c", HOLD, str(tmp_path), run_id]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        assert end_lost_runs(instance, store) == []
        assert status(instance, run_id) is dg.DagsterRunStatus.STARTED
        process.kill()
    assert end_lost_runs(instance, store) == [run_id]
    assert status(instance, run_id) is dg.DagsterRunStatus.FAILURE
    assert end_lost_runs(instance, store) == []


def test_runs_of_this_process_and_those_that_nothing_is_known_of_are_left_alone(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    store, ours, unknown = Store(tmp_path), begun(instance), begun(instance)
    hold(store, ours)
    hold(store, ours)
    assert end_lost_runs(instance, store) == []
    assert {status(instance, ours), status(instance, unknown)} == {dg.DagsterRunStatus.STARTED}


def test_the_sensor_ends_lost_runs_and_starts_nothing(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG"):
        monkeypatch.setenv(variable, "")
    (tmp_path / "touchstone.toml").write_text("")
    run_id, data = begun(instance), tmp_path / "data"
    file = Store(data).lock(f"run-{run_id}")
    file.parent.mkdir(parents=True)
    file.touch()
    workshop = WorkshopResource(config=str(tmp_path / "touchstone.toml"), data=str(data))
    open_workshop.cache_clear()
    said = []
    for _ in range(2):
        context = dg.build_sensor_context(instance=instance, resources={"workshop": workshop})
        said.append(lost_runs.evaluate_tick(context))
    open_workshop.cache_clear()
    assert [tick.skip_message for tick in said] == [f"ended: {run_id}", "every run has its process"]
    assert not any(tick.run_requests for tick in said)
    assert status(instance, run_id) is dg.DagsterRunStatus.FAILURE
    assert not file.exists()
