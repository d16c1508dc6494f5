"""What a run of agents is said to take before it is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assets.cli import touchstone
from pipeline.attempts import Attempt, SamplesConfig, rounds
from pipeline.batch import Retry
from pipeline.llm.openai_server import OpenAIServerConfig
from pipeline.llm.scripted import ScriptedModel
from pipeline.llm_judge import PROMPT
from pipeline.prompts import prompt
from pipeline.rollout import RolloutConfig
from pipeline.rollout_plan import FIRST_PROMPT, GROWTH, JUDGE, RolloutPlan, instances_of_streams, rollout_plan
from pipeline.rows import instance_row
from pipeline.schemas import Row
from pipeline.stages.options import Options
from pipeline.tables import Store
from pipeline.types import TaskInstance

PRICES = OpenAIServerConfig(
    base_url="http://127.0.0.1:1/v1",
    model="m",
    usd_per_million_prompt_tokens=1.0,
    usd_per_million_cached_tokens=0.1,
    usd_per_million_completion_tokens=10.0,
)
CALL = {"seconds": 3.0, "cached_tokens": 500_000}
STEP: Row = {"index": 0, "seconds": 1.0, "extra": {"calls": [CALL]}}
MEASURED: Row = {"n_prompt_tokens": 1_000_000, "n_tokens": 100_000, "steps": [STEP]}


def asked(task: TaskInstance, *agents: str, count: int = 4) -> list[Attempt]:
    made = rounds([task], agents, ScriptedModel([], name="m"), SamplesConfig(count=count))
    return [attempt for one in made for attempt in one]


def record(store: Store, *attempts: Attempt, failure_class: str | None = None) -> None:
    rows: list[Row] = []
    for one in attempts:
        key = one.trajectory_id
        row: Row = {"item_key": key, "attempt": 1, "reason": "", "agent": one.agent.name, "model": one.agent.model}
        made = {"trajectory_id": key, **MEASURED} if failure_class is None else {"failure_class": failure_class}
        rows.append(row | made)
    store.append("trajectories", rows, app_id=f"test-{failure_class}", sequence=1)


def planned(store: Store, attempts: list[Attempt], *, options: Options | None = None, **config: object) -> RolloutPlan:
    return rollout_plan(store, attempts, RolloutConfig.model_validate(config), PRICES, options or Options())


def test_attempts_on_record_are_not_made_again(tmp_path: Path, task: TaskInstance) -> None:
    store, attempts = Store(tmp_path), asked(task, "oracle", "bash")
    record(store, *attempts[:2])
    found = planned(store, attempts)
    assert [(one.agent, one.attempts, one.to_make) for one in found.agents] == [("oracle", 1, 0), ("bash", 4, 3)]
    assert (found.instances, found.to_make) == (1, 3)


def test_what_was_measured_is_what_is_expected(tmp_path: Path, task: TaskInstance) -> None:
    store, attempts = Store(tmp_path), asked(task, "bash")
    record(store, attempts[0])
    (found,) = planned(store, attempts).agents
    assert (found.prompt_tokens, found.completion_tokens, found.seconds) == (3_000_000, 300_000, 12.0)
    # Half of each prompt is paid at the price of cached tokens.
    assert found.cost_usd == pytest.approx(3 * (0.5 + 0.05 + 1.0))
    assert found.basis == "mean of 1 recorded attempts"


def test_an_agent_without_attempts_is_estimated_from_a_stated_assumption(tmp_path: Path, task: TaskInstance) -> None:
    (found,) = planned(Store(tmp_path), asked(task, "bash", count=1), max_steps=2).agents
    assert found.prompt_tokens == 2 * FIRST_PROMPT + GROWTH
    assert found.basis.startswith("assumed: 2 turns")
    assert found.cost_usd == pytest.approx((found.prompt_tokens + 10 * found.completion_tokens) / 1e6)


def test_measures_of_another_agent_say_nothing(tmp_path: Path, task: TaskInstance) -> None:
    store = Store(tmp_path)
    record(store, *asked(task, "bash"))
    (found,) = planned(store, asked(task, "terminus")).agents
    assert (found.to_make, found.basis[:7]) == (4, "assumed")


def test_an_agent_without_a_model_costs_nothing(tmp_path: Path, task: TaskInstance) -> None:
    found = planned(Store(tmp_path), asked(task, "oracle", "noop"))
    assert [(one.prompt_tokens, one.cost_usd) for one in found.agents] == [(0, None), (0, None)]
    assert found.cost_usd == 0.0


def test_a_model_without_prices_has_no_cost(tmp_path: Path, task: TaskInstance) -> None:
    found = rollout_plan(Store(tmp_path), asked(task, "bash"), RolloutConfig(), None, Options())
    assert found.cost_usd is None and found.prompt_tokens > 0


def test_questions_to_the_judge_are_planned_as_far_as_they_are_not_answered(tmp_path: Path, task: TaskInstance) -> None:
    store, attempts = Store(tmp_path), asked(task, "oracle", "bash")
    row: Row = {"trajectory_id": attempts[1].trajectory_id, "model": "j", "prompt_sha256": prompt(PROMPT).sha256}
    put(store, "judgements", "a", row | {"outcome": "failed", "n_prompt_tokens": 10, "n_tokens": 2, "seconds": 0.5})
    put(store, "judgements", "b", row | {"prompt_sha256": "another wording", "outcome": "failed"})
    known, unknown = (
        rollout_plan(store, attempts, RolloutConfig(), PRICES, Options(), judge=name).agents[-1] for name in ("j", "k")
    )
    assert (known.agent, known.attempts, known.to_make, known.prompt_tokens, known.seconds) == (JUDGE, 4, 3, 30, 1.5)
    assert (unknown.to_make, unknown.basis[:7]) == (4, "assumed")


@pytest.mark.parametrize(
    ("retry", "only", "to_make"),
    [
        (Retry.NONE, (), 0),
        (Retry.INFRASTRUCTURE, (), 1),
        (Retry.ALL, (), 2),
        (Retry.ALL, ("traj-none",), 0),
    ],
)
def test_failed_attempts_are_planned_as_the_options_cover_them(
    tmp_path: Path, task: TaskInstance, retry: Retry, only: tuple[str, ...], to_make: int
) -> None:
    store, attempts = Store(tmp_path), asked(task, "bash", count=3)
    record(store, attempts[0])
    record(store, attempts[1], failure_class="infrastructure")
    record(store, attempts[2], failure_class="unknown")
    assert planned(store, attempts, options=Options(retry=retry, only=only)).to_make == to_make


def test_workers_share_the_time_as_far_as_there_are_attempts(tmp_path: Path, task: TaskInstance) -> None:
    found = planned(Store(tmp_path), asked(task, "oracle", "noop"), options=Options(workers=8))
    assert (found.workers, found.seconds, found.wall_seconds) == (2, 4.0, 2.0)


def put(store: Store, table: str, key: str, row: Row) -> None:
    store.append(table, [row | {"item_key": key, "attempt": 1, "reason": ""}], app_id=f"put-{key}", sequence=1)


@pytest.fixture
def place(tmp_path: Path, task: TaskInstance, options: list[str]) -> list[str]:
    """Options that name a data folder with one chosen instance, of a repository in Go, and a model that nobody runs."""
    (tmp_path / "touchstone.toml").write_text(
        '[rollout]\nagents = ["oracle", "bash"]\n[model]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
    )
    store = Store(tmp_path / "data")
    put(store, "listings", "l", {"day": "2026-11-02", "stream": "go", "repository_id": task.repository_id})
    put(store, "instances", "i", {**instance_row(task), "admitted": True})
    put(store, "selections", "s", {"instance_id": task.instance_id, "selected": True})
    return options


@pytest.mark.parametrize(
    ("streams", "day", "found"),
    [(["go"], None, 1), (["go", "c"], "2026-11-02", 1), (["c"], None, 0), (["go"], "2026-11-03", 0)],
)
def test_the_instances_are_those_of_the_streams(
    place: list[str], streams: list[str], day: str | None, found: int
) -> None:
    assert len(instances_of_streams(Store(Path(place[-1])), streams, day)) == found


def test_a_plan_as_json_needs_neither_an_engine_nor_a_server(place: list[str]) -> None:
    answer = CliRunner().invoke(touchstone, ["run", "--plan", "--json", *place], catch_exceptions=False)
    found = json.loads(answer.stdout)
    assert (found["instances"], found["to_make"], found["cost_usd"]) == (1, 5, None)
    assert [one["agent"] for one in found["agents"]] == ["oracle", "bash"]


def test_a_run_that_is_only_planned_shows_the_plan_and_runs_nothing(place: list[str]) -> None:
    arguments = ["run", "--plan", "--streams", "go", *place]
    answer = CliRunner().invoke(touchstone, arguments, catch_exceptions=False, env={"COLUMNS": "250"})
    assert "bash / m" in answer.stdout and "assumed: 12 turns" in answer.stdout and "no prices" in answer.stdout
    assert not (Path(place[-1]) / "dagster").exists()
