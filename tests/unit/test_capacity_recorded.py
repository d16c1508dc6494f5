"""What is measured of a recorded run, and that a plan says the same again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assets.cli import touchstone
from pipeline.capacity.measures import mean_of, share_of
from pipeline.capacity.recorded import Publication, measured
from pipeline.capacity.stages import Measured, StageMeasure
from pipeline.journal import Entry, Journal, spans
from pipeline.schemas import Row
from pipeline.tables import Store

RECORDED = Path(__file__).resolve().parents[2] / "training" / "experiments" / "capacity"
FAR_PRICES = """
[plan]
cores = 16
usd_per_machine_hour = 0.5
usd_per_gb_month = 0.05

[model]
base_url = "http://127.0.0.1:1/v1"
model = "m"
usd_per_million_prompt_tokens = 0.2
usd_per_million_completion_tokens = 0.8
"""
START = "2026-11-02T10:00:{:06.3f}+00:00"
REPOSITORIES = ("repo-a", "repo-b", "repo-c", "repo-d")
TASKS = {"task-1": "repo-a", "task-2": "repo-a", "task-3": "repo-b"}
"""Those that were admitted; another one of repo-b was not."""
ATTEMPTS = {f"traj-{task[-1]}{sample}": task for task in TASKS for sample in (0, 1)}
PASSED = ("traj-10", "traj-11", "traj-20")
CALL = {"seconds": 3.0, "cached_tokens": 40}


def put(store: Store, table: str, rows: Mapping[str, Row]) -> None:
    """Rows by the keys of their items."""
    batch: Row = {"attempt": 1, "reason": ""}
    store.append(table, [{"item_key": key, **batch, **row} for key, row in rows.items()], app_id=table, sequence=1)


def timed(store: Store, stage: str, spans_of: Mapping[str, tuple[float, float]]) -> None:
    """When the items of a stage began and how long they took."""
    with Journal(store.root) as journal:
        for key, (began, seconds) in spans_of.items():
            journal.record(Entry(stage, key, 1, None, START.format(began), seconds, ()), {})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Four repositories, one of which the network kept away; two images, three tasks, two attempts at each."""
    store = Store(tmp_path_factory.mktemp("recorded"))
    fetched: Row = {"tree_sha256": "1", "n_bytes": 1_000}
    trees: dict[str, Row] = {key: {"repository_id": key, **fetched} for key in REPOSITORIES[:3]}
    trees["repo-d"] = {"repository_id": "repo-d", "failure_class": "infrastructure"}
    put(store, "listings", {f"day/{key}#1": {"repository_id": key} for key in REPOSITORIES})
    put(store, "repositories", trees)
    put(store, "scores", {f"{key}/static": {"repository_id": key, "kept": True} for key in REPOSITORIES[:3]})
    built: Row = {"status": "built", "smoke_ok": True, "size_bytes": 600, "cached": True}
    builds: dict[str, Row] = {key: {"repository_id": key, **built} for key in REPOSITORIES[:2]}
    builds["repo-c"] = {"repository_id": "repo-c", "status": "failed", "failure_class": "dependency"}
    put(store, "image_builds", builds)
    tasks: dict[str, Row] = {
        f"{of}/{task}": {"instance_id": task, "repository_id": of, "admitted": True} for task, of in TASKS.items()
    }
    tasks["repo-b/task-4"] = {"instance_id": "task-4", "repository_id": "repo-b", "admitted": False}
    put(store, "instances", tasks)
    put(store, "selections", {task: {"instance_id": task, "selected": True} for task in TASKS})
    answer: Row = {"model": "m", "n_prompt_tokens": 100, "n_tokens": 10}
    steps: Row = {"steps": [{"index": 0, "seconds": 0.5, "extra": {"calls": [CALL, CALL]}}]}
    tried: dict[str, Row] = {
        key: {"trajectory_id": key, "instance_id": task, "agent": "bash", **answer, **steps}
        for key, task in ATTEMPTS.items()
    }
    tried["traj-noop"] = {"trajectory_id": "traj-noop", "instance_id": "task-1", "agent": "noop"}
    put(store, "trajectories", tried)
    verdicts: dict[str, Row] = {
        key: {"trajectory_id": key, "outcome": "passed" if key in PASSED else "failed"} for key in tried
    }
    put(store, "verifications", verdicts)
    put(store, "curations", {f"{key}@1/1/none": {"trajectory_id": key} for key in PASSED})
    timed(store, "listing", {f"day/{key}#1": (0, 0.001) for key in REPOSITORIES})
    timed(store, "fetch", {key: (0, 1.0) for key in REPOSITORIES})
    timed(store, "score", {f"{key}/static": (0, 0.1) for key in REPOSITORIES[:3]})
    # Two at a time for 10 s, then one alone for 10 s.
    timed(store, "build", {"repo-a": (0, 10.0), "repo-b": (0, 10.0), "repo-c": (20, 10.0)})
    # The second time with other settings.
    timed(store, "instances", {"repo-a/1": (0, 20.0), "repo-a/2": (20, 10.0), "repo-b/1": (30, 30.0)})
    timed(store, "selection", {task: (0, 0.0) for task in TASKS})
    timed(store, "rollout", {key: (0, 10.0) for key in tried})
    timed(store, "verification", {key: (0, 1.0) for key in tried})
    timed(store, "curation", {f"{key}@1/1/none": (0, 0.5) for key in PASSED})
    return store


@pytest.fixture(scope="module")
def found(store: Store) -> Measured:
    return measured(store, Publication("terminal", frozenset({"traj-10"})), cores=2.0)


def of(found: Measured, stage: str) -> StageMeasure:
    return next(one for one in found.stages if one.stage == stage)


def test_yields_are_counted_by_repository(found: Measured) -> None:
    yields = {one.stage: one.yielded for one in found.stages if one.yielded is not None}
    assert yields == {
        "fetch": share_of([(1.0, 1.0)] * 3),  # what the network kept away is tried again
        "score": share_of([(1.0, 1.0)] * 3),
        "build": share_of([(1.0, 1.0), (1.0, 1.0), (0.0, 1.0)]),
        "instances": mean_of([(2.0, 1.0), (1.0, 1.0)]),
        "selection": share_of([(2.0, 2.0), (1.0, 1.0)]),
        "sampling": mean_of([(4.0, 2.0), (2.0, 1.0)]),
        "rollout": share_of([(4.0, 4.0), (2.0, 2.0)]),
        "verification": share_of([(3.0, 4.0), (0.0, 2.0)]),
        "curation": share_of([(1.0, 3.0)]),
    }


def test_the_cost_of_an_item_is_all_that_was_spent_on_it(found: Measured) -> None:
    assert of(found, "instances").seconds == mean_of([(30.0, 1.0), (30.0, 1.0)])
    assert of(found, "fetch").seconds == mean_of([(1.0, 1.0)] * 4)


def test_an_item_had_the_cores_that_others_left_it(found: Measured) -> None:
    build = of(found, "build")
    assert (build.concurrency, build.cores) == pytest.approx((1.5, 2 / 1.5), rel=1e-5)
    assert of(found, "instances").cores == 2.0  # one at a time
    assert of(found, "verification").cores == pytest.approx(2 / 6, rel=1e-5)


def test_waiting_for_a_model_takes_no_core(found: Measured) -> None:
    rollout = of(found, "rollout")
    assert rollout.seconds is not None and rollout.active_seconds is not None
    assert (rollout.seconds.value, rollout.active_seconds.value) == (10.0, 4.0)
    assert rollout.cores == pytest.approx(2 / (6 * 0.4), rel=1e-5)


def test_tokens_are_those_of_the_attempts_of_models(found: Measured) -> None:
    rollout = of(found, "rollout")
    asked = (rollout.prompt_tokens, rollout.cached_tokens, rollout.completion_tokens)
    assert [one.value for one in asked if one is not None] == [100.0, 80.0, 10.0]
    assert found.attempts == "bash / m"


def test_bytes_are_those_of_rows_trees_and_images(found: Measured, store: Store) -> None:
    trees, images = of(found, "fetch").kept_bytes, of(found, "build").kept_bytes
    assert trees is not None and images is not None
    assert (trees.value, images.value) == (750.0, 400.0)  # of the repositories that came to the stage
    size = sum(os.stat(file).st_size for file in store.files("listings"))
    assert of(found, "listing").table_bytes == pytest.approx(size / 4, rel=1e-5)


def test_the_basis_says_what_is_wrong_with_it(found: Measured) -> None:
    assert (
        of(found, "build").basis
        == "3 repositories, 1.5 at a time; 2 of 2 images were there already: new ones take longer"
    )
    assert of(found, "verification").basis == "6 attempts of 2 repositories, 6.0 at a time"


def test_the_attempts_of_other_agents_are_measured_when_they_are_named(store: Store) -> None:
    found = measured(store, Publication("terminal", frozenset()), cores=2.0, agents=["noop"])
    assert (found.attempts, of(found, "verification").yielded) == ("noop", share_of([(0.0, 1.0)]))


def test_measuring_writes_nothing(store: Store, found: Measured) -> None:
    before = written(store.root)
    measured(store, Publication("terminal", frozenset()), cores=2.0)
    assert written(store.root) == before
    assert spans(store.root / "elsewhere", "build") == []
    assert not (store.root / "elsewhere").exists()


def written(root: Path) -> dict[Path, int]:
    """When each file was written, but for the one by which SQLite's readers know of each other."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".sqlite-shm")
    return {path: path.stat().st_mtime_ns for path in files}


def command(options: list[str], *arguments: str) -> Result:
    return CliRunner().invoke(touchstone, ["plan", *options, *arguments], env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", ["trajectories", "repositories"])
def test_the_recorded_run_gives_its_plan_again(options: list[str], name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    Path(options[1]).write_text(FAR_PRICES)
    again = command(
        options, "--measured", str(RECORDED / f"{name}.json"), f"--{name}", str(recorded["targets"][name]), "--json"
    )
    assert again.exit_code == 0, again.output
    assert json.loads(again.output) == recorded


def test_the_tables_of_a_run_give_the_plan_that_its_measurements_give(options: list[str], store: Store) -> None:
    """Curation looked with other rules, so it keeps none: the plan is one for repositories."""
    asked = (["--config", options[1], "--data", str(store.root)], "--repositories", "1000", "--machines", "2")
    first = command(*asked, "--json")
    assert first.exit_code == 0, first.output
    Path(options[1]).with_name("plan.json").write_text(first.output)
    again = command(options, "--measured", str(Path(options[1]).with_name("plan.json")), *asked[1:], "--json")
    assert json.loads(again.output) == json.loads(first.output)
    shown = command(*asked)
    assert shown.exit_code == 0 and "nothing was run" in shown.output
    assert "days = " in shown.output and "usd_per_machine_hour in [plan]" in shown.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what is wanted"),
        (["--trajectories", "0"], "0 is not in the range"),
        (["--repositories", str(10**13)], "is not in the range"),
        (["--trajectories", "1", "--days", "1", "--machines", "1"], "give --days or --machines"),
        (["--trajectories", "1", "--agents", "bash,bush"], "there is no agent bush; there are act"),
        (["--trajectories", "1", "--agents", "bash", "--measured", "x"], "--agents belongs to a data folder"),
    ],
)
def test_a_mistake_is_said(options: list[str], arguments: list[str], said: str) -> None:
    found = command(options, *arguments)
    assert (found.exit_code, said in found.output) == (2, True)


def test_an_empty_data_folder_says_what_to_do(options: list[str]) -> None:
    found = command(options, "--trajectories", "1")
    assert (
        str(found.exception)
        == "listing has no measurement: run `touchstone run` over some repositories first, then plan again"
    )
    assert not (Path(options[3]) / "tables" / "journal.sqlite").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("{}", "is not what `touchstone plan --json` wrote"),
        ("[1", "is not what `touchstone plan --json` wrote"),
        ('{"measured": {"cores": -1, "attempts": "", "stages": []}}', "cores: Input should be greater than 0"),
        (
            '{"measured": {"cores": 1, "attempts": "", "stages": [{"stage": "cook", "basis": ""}]}}',
            "stages.0.stage: Input",
        ),
    ],
)
def test_a_file_that_holds_no_measurement_is_named(options: list[str], content: str | None, said: str) -> None:
    file = Path(options[1]).with_name("measured.json")
    if content is not None:
        file.write_text(content)
    found = command(options, "--trajectories", "1", "--measured", str(file))
    assert f"--measured: {file}" in str(found.exception) and said in str(found.exception)


def test_a_negative_price_is_refused_with_its_name(options: list[str]) -> None:
    Path(options[1]).write_text("[plan]\nusd_per_machine_hour = -1\n")
    assert "plan.usd_per_machine_hour" in str(command(options, "--trajectories", "1").exception)
