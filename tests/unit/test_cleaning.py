"""What the nightly cleaning removes of Dagster's history, of which stages it asks, and what it says."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.cleaning import clean_history, cleaning_job
from assets.definitions import defs
from assets.resources import WorkshopResource, open_workshop

NOW = datetime.datetime.now(datetime.UTC)
SOON, LONG_AGO = NOW + datetime.timedelta(days=1), NOW - datetime.timedelta(days=30)


@dg.asset
def rows() -> None:
    """Has a result."""


@dg.op
def nothing() -> None:
    """Has none."""


@dg.job
def without_results() -> None:
    nothing()


@dg.asset
def breaks() -> None:
    raise ValueError("no")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as one:
        yield one


def logs(tmp_path: Path, run_id: str) -> Path:
    """The folder with what the steps of a run printed."""
    folder = tmp_path / "home" / "storage" / run_id / "compute_logs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step.out").write_text("printed\n")
    return folder


def test_old_runs_lose_their_outputs_and_those_without_results_go(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    kept = dg.materialize([rows], instance=instance).run_id
    gone = [
        without_results.execute_in_process(instance=instance).run_id,
        dg.materialize([breaks], instance=instance, raise_on_error=False).run_id,
    ]
    running = instance.create_run_for_job(without_results, status=dg.DagsterRunStatus.STARTED).run_id
    printed = {run_id: logs(tmp_path, run_id) for run_id in (kept, running, *gone)}

    assert clean_history(instance, LONG_AGO) == (0, 0)
    assert all(folder.exists() for folder in printed.values())

    assert clean_history(instance, SOON) == (3, 2)
    assert {run_id for run_id, folder in printed.items() if folder.exists()} == {running}
    assert {run.run_id for run in instance.get_runs()} == {kept, running}
    # The UI still knows what was materialized, and when.
    assert instance.get_latest_materialization_event(rows.key) is not None


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[WorkshopResource]:
    open_workshop.cache_clear()
    (tmp_path / "touchstone.toml").write_text("[cleaning]\nstages = ['images', 'sources', 'journal']\n")
    (tmp_path / "data").mkdir()
    yield WorkshopResource(config=str(tmp_path / "touchstone.toml"), data=str(tmp_path / "data"))
    open_workshop.cache_clear()


def run(instance: dg.DagsterInstance, workshop: WorkshopResource) -> dict[str, object]:
    """What a run of the job says."""
    result = cleaning_job.execute_in_process(instance=instance, resources={"workshop": workshop})
    (event,) = [event for event in result.all_node_events if event.is_successful_output]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


def test_the_job_frees_what_is_configured_and_says_so(
    instance: dg.DagsterInstance, workshop: WorkshopResource, tmp_path: Path
) -> None:
    tree = tmp_path / "data" / "sources" / "unnamed.tar"
    tree.parent.mkdir()
    tree.write_bytes(os.urandom(2_000_000))
    os.utime(tree, (time.time() - 2 * 86400,) * 2)
    said = run(instance, workshop)
    assert not tree.exists()
    assert said["freed_mb"] == pytest.approx(2.0, abs=0.1)
    table = str(said["stages"])
    assert "| sources |" in table and "| journal |" in table and "| states |" not in table
    assert (said["outputs_of_runs"], said["runs_without_results"]) == (0, 0)


@pytest.mark.parametrize("owned", [True, False])
def test_images_are_looked_at_only_in_an_engine_of_our_own(
    instance: dg.DagsterInstance, workshop: WorkshopResource, tmp_path: Path, owned: bool
) -> None:
    address = {"socket": str(tmp_path / "none.sock"), "owned": owned}
    (tmp_path / "data" / "engine.json").write_text(json.dumps(address))
    assert ("| images |" in str(run(instance, workshop)["stages"])) == owned


def test_the_schedule_cleans_before_the_night_begins() -> None:
    schedules = {one.name: one for one in defs.get_repository_def().schedule_defs}
    crons = {name: one.cron_schedule for name, one in schedules.items()}
    assert crons == {"nightly": "0 2 * * *", "nightly_cleaning": "0 1 * * *"}
    assert all(one.default_status is dg.DefaultScheduleStatus.RUNNING for one in schedules.values())
    assert schedules["nightly_cleaning"].job_name == "cleaning"
