"""The main job over small local repositories: what a second run does, what a kill costs, what bad input becomes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable

import pytest

from pipeline.schemas import TABLES, to_rows
from pipeline.snapshots import versions
from pipeline.tables import Store
from sandbox.engine import connect, owner_is_alive
from tests.integration.projects import DOCKERFILE, FRUIT, PROJECT, Project, ledger, word_tools

pytestmark = pytest.mark.docker

ONE_ROW_PER_ITEM = ("listings", "repositories", "scores", "selections", "trajectories", "verifications")


def table(project: Project, name: str) -> list[dict[str, object]]:
    return to_rows(Store(project.data).read(name))


def recorded(project: Project) -> set[tuple[str, str, object]]:
    """Which row was written when: equal before and after exactly when nothing was done anew."""
    return {(name, str(row["item_key"]), row["recorded_at"]) for name in TABLES for row in table(project, name)}


def identities(project: Project) -> dict[str, list[str]]:
    """What a run gave, without times and run ids."""
    return {
        "instances": sorted(str(row["instance_id"]) for row in table(project, "instances") if row["instance_id"]),
        "trajectories": sorted(str(row["trajectory_id"]) for row in table(project, "trajectories")),
        "verdicts": sorted(f"{row['trajectory_id']} {row['outcome']}" for row in table(project, "verifications")),
    }


def containers_of_ours(project: Project) -> list[str]:
    """Containers of dead drivers, and builds that nobody waits for."""
    client = connect(project.data)
    found = client.api.containers(all=True, filters={"label": "touchstone.owner"})
    return [one["Id"] for one in found if not owner_is_alive(one["Labels"]["touchstone.owner"])]


def test_a_run_goes_on_behind_the_instances_of_a_former_a_second_does_nothing_and_a_new_repository_alone_is_worked_on(
    make_project: Callable[[str], Project],
) -> None:
    project = make_project("again")
    project.add("fruit", word_tools("fruit", FRUIT))
    said = project.touchstone("run", "--instances-only", "--streams", "python").stdout
    assert "admitted" in said and "trajectories" not in said and "Snapshot" not in said
    half = recorded(project)
    assert project.status()["rollouts"] == 0

    project.touchstone("run")
    assert half < recorded(project)
    status = project.status()
    assert status["repositories"] == status["kept"] == status["images_built"] == 1
    assert isinstance(status["instances_admitted"], int) and status["instances_admitted"] >= 2
    assert status["rollouts"] == 2 * status["instances_admitted"]
    assert status["trajectories_verified"] == status["instances_admitted"]
    first = recorded(project)

    project.touchstone("run")
    assert recorded(project) == first
    assert [version.version for version in versions(project.data, "terminal")] == ["v0001"]

    project.add("ledger", ledger("ledger"))
    project.touchstone("run")
    assert first < recorded(project)
    new = {key for _, key, at in recorded(project) - first}
    fruit = next(row["repository_id"] for row in table(project, "repositories") if row["full_name"] == "local/fruit")
    assert not [key for key in new if str(fruit) in key]
    assert [version.version for version in versions(project.data, "terminal")] == ["v0001", "v0002"]


def test_a_run_over_other_streams_leaves_a_repository_alone(make_project: Callable[[str], Project]) -> None:
    project = make_project("streams")
    project.add("fruit", word_tools("fruit", FRUIT))
    project.touchstone("run", "--instances-only", "--streams", "domains")
    assert [row["stream"] for row in table(project, "listings")] == ["python"]
    assert table(project, "repositories") == []


def test_killed_at_three_stages_nothing_is_lost_doubled_or_done_again(make_project: Callable[[str], Project]) -> None:
    whole, cut = make_project("whole"), make_project("cut")
    for project in (whole, cut):
        project.add("fruit", word_tools("fruit", FRUIT))
        project.add("ledger", ledger("ledger"))
    whole.touchstone("run")

    for stage in ("build", "instances", "rollout"):
        kill_when_one_item_is_done(cut, stage)
        before = journal(cut)
        assert before[stage], f"nothing of {stage} was done before the kill"
    cut.touchstone("run")

    after = journal(cut)
    assert all(after[name][key] == entry for name in before for key, entry in before[name].items())
    assert identities(cut) == identities(whole)
    for name in ONE_ROW_PER_ITEM:
        keys = [(row["item_key"], row["attempt"]) for row in table(cut, name)]
        assert len(keys) == len(set(keys)), name
        assert all(attempt == 1 for _, attempt in keys), name
    assert containers_of_ours(cut) == []


def kill_when_one_item_is_done(project: Project, stage: str) -> None:
    process = subprocess.Popen(
        project.command("run"),
        cwd=PROJECT,
        env=project.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 600  # the first run of all makes the base image, too
    while not journal(project).get(stage):
        assert process.poll() is None, f"the run ended before an item of {stage} was done"
        assert time.monotonic() < deadline, f"no item of {stage} was done in time"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def journal(project: Project) -> dict[str, dict[str, tuple[object, ...]]]:
    """Settled items by stage: key -> (attempt, when it was started)."""
    path = project.data / "tables" / "journal.sqlite"
    found: dict[str, dict[str, tuple[object, ...]]] = {}
    if not path.exists():
        return found
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        try:
            rows = connection.execute("SELECT stage, key, attempt, started_at FROM items").fetchall()
        except sqlite3.OperationalError:  # the first run is just creating it
            return found
    for stage, key, attempt, started_at in rows:
        found.setdefault(stage, {})[key] = (attempt, started_at)
    return found


def test_bad_repositories_become_rows_with_a_reason_and_the_run_goes_on(make_project: Callable[[str], Project]) -> None:
    project = make_project("bad")
    project.settings = "[builds]\ntimeout_s = 20\n"
    project.add("good", word_tools("good", FRUIT))
    project.add("empty", {})
    many = project.add("many", {"a.py": ""})
    for number in range(50_000):
        (many / f"file{number}.py").touch()
    loop = project.add("loop", {"a.py": "print(1)\n"})
    (loop / "one").symlink_to("two")
    (loop / "two").symlink_to("one")
    outside = project.add("outside", {"a.py": "print(1)\n"})
    (outside / "passwords").symlink_to("/etc/passwd")
    huge = project.add("huge", {"a.py": "print(1)\n"})
    with (huge / "dump.bin").open("wb") as file:
        file.truncate(2**30)
    endless = ledger("endless")
    project.add("endless", endless | {"Dockerfile": DOCKERFILE.format(name="endless") + "RUN sleep 100000\n"})
    crlf = project.add("crlf", ledger("crlf") | {"run.sh": b"#!/bin/sh\r\nls\r\n", "latin.txt": b"caf\xe9\n"})
    (crlf / os.fsdecode(b"na\xefve.txt")).write_text("x")

    project.touchstone("run")

    rows = {str(row["full_name"]).removeprefix("local/"): row for row in table(project, "repositories")}
    refused = {name: row["failure_class"] for name, row in rows.items() if row["failure_class"]}
    assert refused == {
        "empty": "empty_repository",
        "many": "too_many_files",
        "loop": "symlink_loop",
        "outside": "path_outside_tree",
        "huge": "file_too_large",
    }
    assert all(rows[name]["reason"] for name in refused)
    warnings = rows["crlf"]["warnings"]
    assert isinstance(warnings, list) and len(warnings) == 2, warnings
    builds = [row for row in table(project, "image_builds") if row["repository_id"] == rows["endless"]["repository_id"]]
    assert builds[0]["failure_class"] == "build_timeout"
    assert project.status()["trajectories_verified"]
    assert containers_of_ours(project) == []
