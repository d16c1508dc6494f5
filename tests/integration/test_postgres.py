"""Dagster's storage in a real PostgreSQL: killed in the middle of a run, dumped, filled, and asked by the doctor."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.postgres_dump import DumpFailed, dump, fill
from assets.resources import Workshop
from assets.run_launcher import FOLDER, WatchedRunLauncher, fail_lost_runs, stay_alive
from assets.settings import Settings
from assets.storage import OUTAGE_S, connected, outlast_restarts, storage_finding
from pipeline.errors import ConfigurationError
from pipeline.schemas import TABLES, to_rows
from pipeline.tables import Store
from tests.integration.postgres_servers import PASSWORD, PostgresServer, postgres_server
from tests.integration.projects import FRUIT, PROJECT, Project, word_tools

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def running() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def server(running: PostgresServer) -> PostgresServer:
    """It runs, whatever the test before did to it."""
    running.start()
    return running


@pytest.fixture
def address(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a new database that the environment names, as in production: the password apart from the address."""
    new = server.database()
    monkeypatch.setenv("TOUCHSTONE_POSTGRES", new)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return new


def runs(address: str) -> list[str]:
    """The status of each run, oldest first."""
    with connected(address) as opened, opened.cursor() as cursor:
        cursor.execute("SELECT status FROM runs ORDER BY id")
        return [status for (status,) in cursor.fetchall()]


def settled(project: Project, stage: str) -> int:
    journal = project.data / "tables" / "journal.sqlite"
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as opened:
            return int(opened.execute("SELECT count(*) FROM items WHERE stage = ?", (stage,)).fetchone()[0])
    except sqlite3.OperationalError:  # not there yet
        return 0


def recorded(project: Project) -> set[tuple[str, str, object]]:
    rows = {name: to_rows(Store(project.data).read(name)) for name in TABLES}
    return {(name, str(row["item_key"]), row["recorded_at"]) for name, found in rows.items() for row in found}


def started(project: Project, stage: str) -> subprocess.Popen[str]:
    """A run in which one item of the stage is done."""
    process = subprocess.Popen(
        project.command("run", "--instances-only", "--streams", "python"),
        cwd=PROJECT,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 600
    while not settled(project, stage):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"no item of {stage} was done in time"
        time.sleep(0.02)
    return process


@pytest.mark.docker
def test_a_run_outlives_a_database_that_is_killed_and_started_again(
    make_project: Callable[[str], Project], server: PostgresServer, address: str
) -> None:
    project = make_project("outage")
    project.add("fruit", word_tools("fruit", FRUIT))
    process = started(project, "build")
    server.kill()
    time.sleep(3)  # longer than Dagster itself tries
    assert process.poll() is None
    server.start()
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert runs(address) == ["SUCCESS"]
    done = recorded(project)
    assert {"repositories", "image_builds", "instances"} <= {name for name, _, _ in done}

    project.touchstone("run", "--instances-only", "--streams", "python")
    assert recorded(project) == done
    assert runs(address) == ["SUCCESS", "SUCCESS"]
    kept = [path for path in project.data.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == []


@pytest.mark.docker
@pytest.mark.long
def test_a_run_whose_database_stays_away_ends_and_the_next_one_goes_on_from_there(
    make_project: Callable[[str], Project], server: PostgresServer, address: str
) -> None:
    project = make_project("gone")
    project.add("fruit", word_tools("fruit", FRUIT))
    process = started(project, "build")
    server.kill()
    said, _ = process.communicate(timeout=OUTAGE_S + 600)
    assert process.returncode == 1
    assert "Dagster's storage is gone" in said and "Traceback" not in said.rpartition("The run failed")[2]
    done = recorded(project)
    assert "image_builds" in {name for name, _, _ in done}

    server.start()
    project.touchstone("run", "--instances-only", "--streams", "python")
    assert done < recorded(project)
    assert runs(address) == ["FAILURE", "SUCCESS"]


def test_only_an_outage_that_lasts_is_an_error_and_it_is_waited_for_once(
    tmp_path: Path, server: PostgresServer, address: str
) -> None:
    with Workshop(Settings(), tmp_path, tmp_path / "data").dagster_instance() as instance:
        outlast_restarts(wait_s=1)
        assert instance.get_runs() == []
        server.kill()
        with pytest.raises(Exception, match="DB connection") as gone:
            instance.get_runs()
        assert isinstance(gone.value.__cause__, Exception)
        server.start()
        assert instance.get_runs() == []


def test_a_run_whose_process_is_gone_has_failed_and_one_that_lives_goes_on(
    tmp_path: Path, server: PostgresServer, address: str
) -> None:
    with Workshop(Settings(), tmp_path, tmp_path / "data").dagster_instance() as instance:
        launcher = instance.run_launcher
        assert isinstance(launcher, WatchedRunLauncher)
        living = dg.DagsterRun(job_name="main", run_id="living")
        stay_alive(Path(instance.root_directory), living.run_id)
        assert launcher.check_run_worker_health(living).status.value == "RUNNING"
        # Another process holds the lock of its run and is killed.
        script = "import os, sys; from pathlib import Path; from assets.run_launcher import stay_alive; "
        script += "stay_alive(Path(sys.argv[1]), 'dead'); os.kill(os.getpid(), 9)"
        subprocess.run([sys.executable, "-c", script, instance.root_directory], cwd=PROJECT, check=False)
        dead = dg.DagsterRun(job_name="main", run_id="dead")
        assert launcher.check_run_worker_health(dead).status.value == "FAILED"
        unheard = dg.DagsterRun(job_name="main", run_id="unheard")
        assert launcher.check_run_worker_health(unheard).status.value == "RUNNING"

        # With its code server gone too nothing could start it again; nobody but the next run fails it then.
        orphan = instance.create_run_for_job(
            dg.GraphDefinition(name="main", node_defs=[]).to_job(),
            status=dg.DagsterRunStatus.STARTED,
            tags={".dagster/grpc_info": '{"host": "127.0.0.1", "port": 9}'},
        )
        Path(instance.root_directory, FOLDER, orphan.run_id).touch()
        assert launcher.check_run_worker_health(orphan).status.value == "RUNNING"
        fail_lost_runs(instance)
        assert runs(address) == ["FAILURE"]


def test_a_dump_fills_an_empty_database_with_equal_counts_and_no_other(
    tmp_path: Path, server: PostgresServer, address: str
) -> None:
    with Workshop(Settings(), tmp_path, tmp_path / "data").dagster_instance() as instance:
        for _ in range(3):
            run = instance.create_run_for_job(dg.GraphDefinition(name="main", node_defs=[]).to_job())
            instance.report_engine_event("noted", run)
    counted = dump(address, tmp_path)
    assert counted["runs"] == 3 and counted["event_logs"] >= 3
    assert PASSWORD.encode() not in (tmp_path / "dagster.dump").read_bytes()
    with pytest.raises(DumpFailed, match="knows of runs already"):
        fill(address, tmp_path)
    assert fill(server.database(), tmp_path) == counted
    (tmp_path / "dagster.dump").write_bytes(b"no dump")
    with pytest.raises(DumpFailed, match="pg_restore: "):
        fill(server.database(), tmp_path)


def test_the_doctor_says_whether_the_storage_answers_and_never_the_password(
    server: PostgresServer, address: str
) -> None:
    assert storage_finding(None).ok
    there = storage_finding(address)
    assert there.ok and "127.0.0.1" in there.detail
    server.kill()
    gone = storage_finding(address)
    assert not gone.ok and "refused" in gone.detail
    assert PASSWORD not in f"{there} {gone}"


def test_a_database_that_does_not_answer_at_the_start_is_a_setting_to_mend(
    tmp_path: Path, server: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(Settings(), tmp_path, tmp_path / "data")
    server.kill()
    with pytest.raises(ConfigurationError, match=r"PostgreSQL of TOUCHSTONE_POSTGRES cannot be used: .*refused"):
        workshop.dagster_instance()
    monkeypatch.setenv("TOUCHSTONE_POSTGRES", f"mysql://user:{PASSWORD}@host/x")
    with pytest.raises(ConfigurationError, match="does not begin with") as unknown:
        workshop.dagster_instance()
    assert PASSWORD not in str(unknown.value)
