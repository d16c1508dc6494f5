"""Every game keeps the promises of training/environments/game.py, in a process of its own as rollouts play it.

What it does in a second is printed at the end of the run, with the share of gold paths that reach the full score.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.agents import FIXED
from pipeline.agents.wander import WanderingAgent
from pipeline.rollout import RolloutConfig, rollout
from training.environments.game import SPLITS, GameTask
from training.environments.pool import GamePool, UnknownTask
from training.environments.registry import MODULES, facts_of
from training.environments.suite import GameSuite
from training.environments.task_lists import order, tasks_of

SAMPLED = 30
"""Tasks of each game whose gold paths are played, evenly of all templates."""


@pytest.fixture(scope="module", params=MODULES)
def suite(request: pytest.FixtureRequest) -> Iterator[GameSuite]:
    made = GameSuite(request.param, 1)
    yield made
    made.close()


def sampled(name: str, count: int) -> list[GameTask]:
    """The first task of each template, then the second ones and so on, of all splits: all 30 of ScienceWorld."""
    seen: Counter[str] = Counter()
    ranked = []
    for number, task in enumerate(tasks_of(name)):
        ranked.append((seen[task.task_type], number, task))
        seen[task.task_type] += 1
    return [task for _, _, task in sorted(ranked, key=lambda one: one[:2])[:count]]


def test_gold_paths_reach_the_full_score(suite: GameSuite, record_property: Callable[[str, object], None]) -> None:
    steps, seconds, passed, tasks = 0, 0.0, 0, sampled(suite.name, SAMPLED)
    for task in tasks:
        with suite._pool.lent() as process:
            opening = process.start(task.task_type, task.variation)
            instance = suite.told(task, opening, process.gold())
        with suite.opened(instance, "shell") as environment:
            environment.reset()
            begun = time.monotonic()
            for action in instance.solution:
                steps += 1
                outcome = environment.step(action)
                if outcome.done:
                    break
            seconds += time.monotonic() - begun
        assert suite.facts.by_chance or len(instance.solution) == task.gold_steps
        passed += outcome.extra["score"] >= 1.0
    told = {"tasks": len(tasks), "gold_full_score": passed, "steps": steps, "steps_per_s": round(steps / seconds, 1)}
    record_property("environment", f"{suite.name}: {json.dumps(told)}")
    assert len(tasks) >= 20 and passed >= (0.95 if suite.facts.by_chance else 1.0) * len(tasks)


def test_the_expert_passes_in_the_rollout_loop_and_the_score_is_the_verdict(suite: GameSuite) -> None:
    instance, _ = suite.instance(sampled(suite.name, 1)[0])
    with suite.opened(instance, "shell") as environment:
        trajectory = rollout(instance, FIXED["oracle"], environment, RolloutConfig(max_steps=suite.facts.max_steps))
    assert suite.judged(instance, trajectory).outcome == "passed"
    assert sum(step.extra.get("reward", 0.0) for step in trajectory.steps) == pytest.approx(1.0)
    with suite.opened(instance, "shell") as environment:
        idle = rollout(instance, FIXED["noop"], environment, RolloutConfig())
    assert suite.judged(instance, idle).outcome == "failed"


def test_words_that_are_no_action_are_rejected_and_change_no_score(suite: GameSuite) -> None:
    instance, _ = suite.instance(sampled(suite.name, 1)[0])
    for words in ("None", "hmm, let me think", "", "näh \u2028 \x00 '\"`$(true)", "a" * 5_000):
        with suite.opened(instance, "shell") as environment:
            environment.reset()
            outcome = environment.step(words)
        assert outcome.extra["rejected"] is True, words[:20]
        assert outcome.extra["score"] < 1.0 and outcome.observation


def test_equal_tasks_read_alike_in_another_process(suite: GameSuite) -> None:
    task = sampled(suite.name, 3)[-1]
    if suite.facts.by_chance:  # then at least what is to be done, and how much there is of it
        (first, _), (second, _) = suite.instance(task), suite.instance(task)
        assert first.instruction == second.instruction
        return
    pool = GamePool(suite.facts, 1)
    read = []
    try:
        for each in (pool, suite._pool):
            with each.lent() as process:
                opening = process.start(task.task_type, task.variation)
                gold = process.gold()
                again = process.start(task.task_type, task.variation)
                assert again == opening
                read.append([opening, gold, *(process.act(action) for action in gold)])
    finally:
        pool.close()
    assert read[0] == read[1]


def test_what_is_admissible_is_taken(suite: GameSuite) -> None:
    instance, _ = suite.instance(sampled(suite.name, 2)[-1])
    with suite.opened(instance, "shell") as environment:
        environment.reset()
        named = environment.admissible()
        if not suite.facts.has_admissible:
            assert named is None
            return
        assert named and list(named) == sorted(set(named))
        assert environment.step(named[0]).extra["rejected"] is False


def test_an_attempt_that_strays_can_be_made_again(suite: GameSuite) -> None:
    instance, _ = suite.instance(sampled(suite.name, 2)[-1])
    made = []
    for _ in range(2):
        with suite.opened(instance, "shell") as environment:
            trajectory = rollout(instance, WanderingAgent(7), environment, RolloutConfig(max_steps=40))
        made.append([(step.observation, step.action, step.extra) for step in trajectory.steps])
    assert made[0] == made[1] and len(made[0]) > 1


def test_an_unknown_task_is_told(suite: GameSuite) -> None:
    with suite._pool.lent() as process:
        with pytest.raises(UnknownTask):
            process.start("no-such-template", "0")
        with pytest.raises(UnknownTask):
            process.start(sampled(suite.name, 1)[0].task_type, "no such variation")
        assert process.alive


@pytest.mark.parametrize("name", MODULES)
def test_the_splits_hold_templates_out(name: str) -> None:
    tasks = tasks_of(name)
    types = {split: {task.task_type for task in tasks if task.split == split} for split in SPLITS}
    assert types["unseen"] and types["seen"] <= types["train"] and not types["unseen"] & types["train"]
    assert len({(task.task_type, task.variation) for task in tasks}) == len(tasks)
    assert tasks == sorted(tasks, key=order)
    assert {task.difficulty for task in tasks} == {"easy", "medium", "hard"}
    assert max(task.gold_steps for task in tasks) < facts_of(name).max_steps


def test_the_games_are_the_files_of_their_folder() -> None:
    folder = Path(__file__).parents[2] / "training" / "environments"
    assert sorted(MODULES) == sorted(path.stem for path in (folder / "splits").glob("*.jsonl"))
    assert all((folder / f"{name}.py").exists() for name in MODULES)
