"""A run whose process was killed is ended, so that neither the UI nor the queue takes it for a running one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.run_launcher import fail_lost_runs, stay_alive

PROJECT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from pathlib import Path
from assets.run_launcher import stay_alive
stay_alive(Path(sys.argv[1]), sys.argv[2])
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral(tempdir=str(tmp_path))


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
    instance: dg.DagsterInstance,
) -> None:
    run_id = begun(instance)
    command = [sys.executable, "-c", HOLD, instance.root_directory, run_id]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        fail_lost_runs(instance)
        assert status(instance, run_id) is dg.DagsterRunStatus.STARTED
        process.kill()
    fail_lost_runs(instance)
    assert status(instance, run_id) is dg.DagsterRunStatus.FAILURE


def test_runs_of_this_process_and_those_that_nothing_is_known_of_are_left_alone(
    instance: dg.DagsterInstance,
) -> None:
    ours, unknown = begun(instance), begun(instance)
    stay_alive(Path(instance.root_directory), ours)
    stay_alive(Path(instance.root_directory), ours)
    fail_lost_runs(instance)
    assert {status(instance, ours), status(instance, unknown)} == {dg.DagsterRunStatus.STARTED}
