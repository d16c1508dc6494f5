"""Attempts in games: the one rollout loop, the score as the verdict, the rows and what is published of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from pipeline.agents import FIXED
from pipeline.agents.game_chat import game_chat
from pipeline.agents.wander import WanderingAgent
from pipeline.attempts import Attempt
from pipeline.batch import Retry
from pipeline.curation.decisions import DatasetConfig
from pipeline.curation.deny_list import Denied
from pipeline.rollout import RolloutConfig, rollout
from pipeline.rows import instance_of, instance_row
from pipeline.schemas import Row, to_rows
from pipeline.snapshots import SnapshotVersion, batches, check, manifest_of
from pipeline.stages.game_verdicts import judge_games, judged, score_of
from pipeline.stages.options import Options
from pipeline.stages.publishing_games import GamesPublication, publish_games
from pipeline.stages.rollouts import roll_out_in
from pipeline.tables import Store
from pipeline.types import Step, TaskInstance, Trajectory
from tests.unit.games import WAY, LampGame, LampGames, lamp_task

OPTIONS = Options(retry=Retry.NONE)


def attempted(store: Store, attempts: list[Attempt], tasks: list[TaskInstance]) -> None:
    """Fill the tables as the stages do."""
    repository = {
        "repository_id": "repo-lamp",
        "source": "environment",
        "full_name": "environment/lamps",
        "commit": "1",
        "license": "MIT",
    }
    instances = [{**instance_row(task), "item_key": task.instance_id, "admitted": True} for task in tasks]
    for table, rows in (("repositories", [repository | {"item_key": "repo-lamp"}]), ("instances", instances)):
        store.append(table, cast(list[Row], rows), app_id=f"test-{table}", sequence=1)
    roll_out_in(store, attempts, LampGames(), RolloutConfig(max_steps=12), OPTIONS)
    judge_games(store, tasks, OPTIONS)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    from pipeline.journal import Journal

    Journal(tmp_path / "environments").close()
    return Store(tmp_path / "environments")


def publish(store: Store, data: Path, **dataset: object) -> SnapshotVersion | None:
    publication = GamesPublication("games", DatasetConfig.model_validate(dataset), ("lamps",))
    return publish_games(store, data, publication, code_commit="c", run_id=None)


def test_a_game_that_is_over_ends_the_attempt_and_the_last_observation_is_kept() -> None:
    trajectory = rollout(lamp_task(), FIXED["oracle"], LampGame(), RolloutConfig())
    assert trajectory.stop_reason == "done"
    assert [step.action for step in trajectory.steps] == list(WAY)
    assert trajectory.steps[-1].extra["after"] == "You did it: take lamp."
    assert trajectory.state_reference == "" and score_of(trajectory) == 1.0


def test_only_the_full_score_passes() -> None:
    full = rollout(lamp_task(), FIXED["oracle"], LampGame(), RolloutConfig())
    half = full.model_copy(update={"steps": full.steps[:2]})
    assert judged(full).outcome == "passed" and judged(full).tests[0].outcome == "passed"
    assert judged(half).outcome == "failed" and "0.5 of 1" in judged(half).tests[0].message
    assert judged(full.model_copy(update={"steps": ()})).outcome == "failed"


def test_what_the_agent_wrote_into_an_action_stands_on_the_step_beside_the_reward() -> None:
    trajectory = rollout(lamp_task(), WanderingAgent(1), LampGame(), RolloutConfig(max_steps=20))
    assert all({"reward", "score", "rejected"} <= set(step.extra) for step in trajectory.steps if step.action)
    assert any(step.extra.get("on_path") for step in trajectory.steps)


def test_a_task_without_an_image_comes_back_from_its_row() -> None:
    task = lamp_task()
    row = {**instance_row(task)}
    row["provenance"] = [{"key": key, "value": value} for key, value in task.provenance.items()]
    assert instance_of(row) == task
    with pytest.raises(ValueError, match="no image"):
        _ = task.image


def test_the_chat_of_an_attempt_alternates_and_ends_with_the_last_action() -> None:
    trajectory = rollout(lamp_task(), FIXED["oracle"], LampGame(), RolloutConfig())
    chat = game_chat(lamp_task(), trajectory.steps)
    assert [one["role"] for one in chat] == ["user", "assistant"] * 3
    assert "Take lamp 0." in chat[0]["content"] and "You are in a hall." in chat[0]["content"]
    assert [one["content"] for one in chat[1::2]] == list(WAY)
    assert chat[2]["content"] == "You did it: open door."
    handed_in = (*trajectory.steps, Step(index=3, observation="x", action=""))
    assert game_chat(lamp_task(), handed_in) == chat
    assert game_chat(lamp_task(), ()) == ()


def test_passed_and_failed_attempts_are_published_with_their_split_and_again_without_a_new_version(
    store: Store, tmp_path: Path
) -> None:
    tasks = [lamp_task("0"), lamp_task("1", "unseen")]
    attempts = [Attempt(task, FIXED["oracle"], 0) for task in tasks]
    attempts += [Attempt(tasks[0], FIXED["noop"], 0), Attempt(tasks[0], WanderingAgent(5), 0)]
    attempted(store, attempts, tasks)
    version = publish(store, tmp_path)
    assert version is not None and check(version.path) == []
    rows = [row for batch in batches(version.path) for row in batch.to_pylist()]
    by_agent = {(row["agent"], row["split"]): row for row in rows}
    assert by_agent["oracle", "train"]["verified"] is True and by_agent["oracle", "unseen"]["verified"] is True
    assert by_agent["noop", "train"]["verified"] is False
    assert by_agent["oracle", "train"]["image_digest"] is None and by_agent["oracle", "train"]["license"] == "MIT"
    assert json.loads(by_agent["oracle", "train"]["steps"][-1]["extra"])["score"] == 1.0
    again = publish(store, tmp_path)
    assert again is not None and (again.version, again.created) == ("v0001", False)


def test_an_attempt_that_reads_like_another_one_is_out_and_said_so(store: Store, tmp_path: Path) -> None:
    task = lamp_task()
    copy = task.model_copy(update={"seed": 7, "provenance": task.provenance | {"variation": "9"}})
    assert copy.instance_id == task.instance_id  # what is read is what names a task
    other = task.model_copy(update={"repository_id": "repo-lamp", "solution": (*WAY, "wait")})
    attempted(store, [Attempt(task, FIXED["oracle"], 0), Attempt(other, FIXED["oracle"], 0)], [task, other])
    version = publish(store, tmp_path)
    assert version is not None and version.rows == 1
    assert manifest_of(version.path).summary == {"judged": 2, "excluded": 1, "kept": 1}


@pytest.mark.parametrize(
    "rules", [{"licences": ("Apache-2.0",)}, {"deny": (Denied(repository="*/lamps", why="owner", date="2026-01-01"),)}]
)
def test_a_game_that_may_not_be_published_is_not(store: Store, tmp_path: Path, rules: dict[str, object]) -> None:
    attempted(store, [Attempt(lamp_task(), FIXED["oracle"], 0)], [lamp_task()])
    assert publish(store, tmp_path, **rules) is None


def test_a_verdict_is_given_once_for_each_attempt(store: Store) -> None:
    attempted(store, [Attempt(lamp_task(), FIXED["oracle"], 0)], [lamp_task()])
    report = judge_games(store, [lamp_task()], OPTIONS)
    assert (report.total, report.skipped) == (1, 1)
    assert [row["outcome"] for row in to_rows(store.current("verifications"))] == ["passed"]


def test_scores_are_read_off_the_last_step_that_has_one() -> None:
    steps = [Step(index=0, observation="", action="a", extra={"score": 0.4}), Step(index=1, observation="", action="")]
    trajectory = Trajectory(
        instance_id="task-x", agent="a", steps=tuple(steps), stop_reason="submitted", state_reference=""
    )
    assert score_of(trajectory) == 0.4
