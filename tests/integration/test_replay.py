"""Replay: the same verdicts over everything that was judged, and a word about each that differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.joined_rows import JudgedRow, judged_rows
from pipeline.tables import Store
from pipeline.verification import STATE_REGAINED, replay, verify
from sandbox.backends.choice import choose
from sandbox.building.base_images import BaseImageConfig, BaseImages
from sandbox.engine import connect
from sandbox.protocol import Backend
from sandbox.types import Limits
from sandbox.verifier.verifier_runtime import VerifierRuntime
from tests.integration.projects import FRUIT, Project, word_tools

pytestmark = pytest.mark.docker

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose main job has run."""
    project = Project(tmp_path_factory.mktemp("replay") / "project")
    project.add("fruit", word_tools("fruit", FRUIT))
    project.touchstone("run")
    return project


@pytest.fixture(scope="module")
def backend(project: Project) -> Backend:
    """The backend that the project's own commands use."""
    client = connect(project.data)
    bases = BaseImages(client, BaseImageConfig(), project.data)
    return choose("auto", client, VerifierRuntime(client, bases), project.data, bases.base().digest)


def passed(project: Project) -> JudgedRow:
    return next(row for row in judged_rows(Store(project.data)) if row.outcome == "passed")


def test_every_judged_row_gets_its_verdict_again(project: Project) -> None:
    report = json.loads(project.touchstone("replay", "--all", "--json").stdout.splitlines()[-1])
    status = project.status()
    assert report["replayed"] == status["rollouts"] > 0
    assert report["n_passed"] == status["trajectories_verified"] == report["replayed"] - report["n_failed"]
    assert (report["same_verdict_rate"], report["differing"], report["broken"]) == (1.0, [], [])
    figure = json.loads(project.touchstone("report", "rollouts", "--json").stdout)["replays"]
    assert (figure["replayed"], figure["judged"], figure["rate"]) == (report["replayed"], report["replayed"], 1.0)


def test_an_attempt_that_lacks_its_last_command_is_reported_as_differing(project: Project, backend: Backend) -> None:
    row = passed(project)
    steps = tuple(step for step in row.trajectory.steps if step.action)[:-1]
    shortened = row.trajectory.model_copy(update={"steps": steps})
    again = replay(row.instance, shortened, row.outcome, backend, command_timeout_s=TIMEOUT_S)
    assert (again.recorded, again.replayed, again.same) == ("passed", "failed", False)
    assert "tests not passed" in again.reason


def test_a_frozen_state_that_was_tampered_with_does_not_get_the_recorded_verdict(
    project: Project, backend: Backend
) -> None:
    row = passed(project)
    result = verify(row.instance, row.trajectory, backend, command_timeout_s=TIMEOUT_S)
    assert (result.outcome, result.integrity) == ("passed", (STATE_REGAINED,))
    reference = row.trajectory.state_reference
    pristine = backend.start(row.instance.image_digest, Limits())
    pristine.freeze(reference)
    pristine.close()
    try:
        assert verify(row.instance, row.trajectory, backend, command_timeout_s=TIMEOUT_S).outcome == "failed"
    finally:
        backend.discard(reference)


def test_a_forged_verdict_in_the_tables_is_found(project: Project, tmp_path: Path) -> None:
    store = Store(project.data)
    failed = next(row for row in judged_rows(store) if row.outcome == "failed")
    rows = store.current("verifications").to_pylist()
    forged = next(row for row in rows if row["trajectory_id"] == failed.trajectory.trajectory_id)
    store.append("verifications", [forged | {"outcome": "passed", "attempt": 2}], app_id="forger", sequence=1)
    try:
        result = project.touchstone("replay", failed.trajectory.trajectory_id, "--json", check=False)
    finally:
        # The tables are shared with the other tests, and rows are only ever added: the newest attempt is true again.
        store.append("verifications", [forged | {"attempt": 3}], app_id="forger", sequence=2)
    report = json.loads(result.stdout.splitlines()[-1])
    assert result.returncode == 1
    assert [(one["recorded"], one["replayed"]) for one in report["differing"]] == [("passed", "failed")]


def test_show_explains_what_is_known_of_an_id(project: Project) -> None:
    row = passed(project)
    shown = project.touchstone("show", row.trajectory.trajectory_id).stdout
    assert row.trajectory.steps[0].action.split()[0] in shown
    assert "passed" in shown
    unknown = project.touchstone("show", "traj-none", check=False)
    assert unknown.returncode == 1 and "traj-none" in unknown.stderr
