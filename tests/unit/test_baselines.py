"""Each method learns a game whose answer is known, from a policy that does not know it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.toy_chain import STEPS, divided, rate, toy_course, toy_task
from training.levels import transitions
from training.methods.baselines import bc, best_of_n, dmpo, eto, glider, grpo, ppo, rft, rloo
from training.methods.baselines.course import Course

BUDGETS = {"bc": 30_000.0, "rft": 60_000.0, "eto": 70_000.0, "dmpo": 70_000.0}
MANY = {"tasks": 4, "minibatch": 8, "learning_rate": 1e-3}
METHODS: dict[str, Callable[[Course], None]] = {
    "bc": lambda course: bc.train(bc.BcConfig(learning_rate=1e-3), course),
    "rft": lambda course: rft.train(rft.RftConfig(tasks=4, cloning=bc.BcConfig(learning_rate=1e-3)), course),
    "eto": lambda course: eto.train(eto.EtoConfig(tasks=4, learning_rate=1e-3), course),
    "dmpo": lambda course: dmpo.train(dmpo.DmpoConfig(tasks=4, learning_rate=1e-3), course),
    "grpo": lambda course: grpo.train(grpo.GrpoConfig.model_validate(MANY), course),
    "ppo": lambda course: ppo.train(ppo.PpoConfig.model_validate(MANY | {"samples": 8, "learning_rate": 2e-3}), course),
    "rloo": lambda course: rloo.train(rloo.RlooConfig.model_validate(MANY), course),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_learns_the_way_out(name: str) -> None:
    course = toy_course(budget=BUDGETS.get(name, 100_000.0))
    before = rate(course)
    assert before < 0.5  # by chance once in 2^STEPS
    METHODS[name](course)
    course.model.forget()
    after = rate(course)
    assert after >= 0.85 > before + 0.3
    assert course.meter.units >= course.budget
    acts = name != "bc"
    assert (course.meter.environment_steps > 0) == acts and (course.meter.written > 0) == acts


def test_glider_learns_the_way_out_with_two_levels() -> None:
    course = toy_course(budget=300_000.0, hierarchical=True)
    before = rate(course)
    config = glider.GliderConfig(
        cloning_share=0.05,
        cloning=bc.BcConfig(learning_rate=1e-4),
        tasks=4,
        turns=16,
        learning_rate=2e-3,
        advantage_temperature=0.1,
        critic_learning_rate=3e-3,
    )
    glider.train(config, course, [divided(task, course.tokenizer) for task in course.tasks])
    course.model.forget()
    assert rate(course) >= 0.6 > before + 0.3


def test_the_best_of_several_attempts_is_the_one_that_the_selector_takes() -> None:
    course = toy_course(budget=40_000.0)
    config = best_of_n.BestOfNConfig(attempts=4, tasks=4)
    head = best_of_n.learn_head(config, course)
    many = [toy_task(number) for number in range(32)]
    one = best_of_n.attempt(config.model_copy(update={"attempts": 1}), course, many, "oracle", None)
    best = best_of_n.attempt(config, course, many, "oracle", None)
    liked = best_of_n.attempt(config, course, many, "value", head)
    shares = [sum(episode.passed for episode in episodes) / 32 for episodes in (one, best, liked)]
    assert shares[0] < shares[2] <= shares[1], shares


def test_what_a_planner_answers_is_worth_what_its_sub_goal_brought() -> None:
    course = toy_course(budget=1_000.0, hierarchical=True)
    found = transitions(divided(course.tasks[0], course.tokenizer), passed=True)
    assert [one.level for one in found] == ["plan", "decision"] * STEPS
    plans = [one for one in found if one.level == "plan"]
    assert [one.reward for one in plans] == [0.0, 0.0, 1.0] and [one.following for one in plans] == [2, 4, None]
    decisions = [one for one in found if one.level == "decision"]
    assert [one.reward for one in decisions] == [1.0] * STEPS and {one.following for one in decisions} == {None}
    failed = transitions(divided(course.tasks[0], course.tokenizer), passed=False)
    assert [one.reward for one in failed if one.level == "decision"] == [0.0] * STEPS
