"""The agent that strays: slips by chance, the same ones again for the same seed, and the whole solution in the end."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from pipeline.agents import NAMES, SEEDED
from pipeline.agents.wander import ON_PATH, WanderingAgent
from pipeline.attempts import SamplesConfig, rounds
from pipeline.types import Step, TaskInstance


def played(task: TaskInstance, seed: int) -> list[Step]:
    """All it does, up to the step that hands in."""
    steps: list[Step] = []
    while True:
        action = WanderingAgent(seed).act(task, steps, "")
        if action.command is None:
            return steps
        steps.append(Step(index=len(steps), observation="", action=action.command, extra=action.extra))


def long_task(task: TaskInstance) -> TaskInstance:
    return task.model_copy(update={"solution": tuple(f"go to room {number}" for number in range(40))})


def test_the_whole_solution_is_done_in_its_order_between_the_slips(task: TaskInstance) -> None:
    wanted = long_task(task)
    steps = played(wanted, 3)
    assert tuple(step.action for step in steps if step.extra.get(ON_PATH)) == wanted.solution
    assert 40 < len(steps) < 80


def test_an_attempt_is_the_same_again_and_another_one_with_another_seed(task: TaskInstance) -> None:
    wanted = long_task(task)
    assert played(wanted, 3) == played(wanted, 3)
    assert [step.action for step in played(wanted, 3)] != [step.action for step in played(wanted, 4)]


def test_all_kinds_of_slips_happen(task: TaskInstance) -> None:
    wanted = long_task(task)
    kinds: Counter[str] = Counter()
    for seed in range(20):
        steps = played(wanted, seed)
        for before, step in pairwise(steps):
            if step.extra.get(ON_PATH):
                kinds["on path"] += 1
            elif step.action not in wanted.solution:
                kinds["no action"] += 1
            else:
                kinds["again" if step.action == before.action else "out of turn"] += 1
    share = {kind: count / kinds.total() for kind, count in kinds.items()}
    assert 0.6 < share["on path"] < 0.85
    assert min(share[kind] for kind in ("no action", "again", "out of turn")) > 0.01


def test_each_sample_has_a_seed_of_its_own_and_no_model_is_needed(task: TaskInstance) -> None:
    made = [one for each in rounds([task], ["oracle", "wander"], None, SamplesConfig(count=3)) for one in each]
    assert [one.agent.name for one in made] == ["oracle", "wander", "wander", "wander"]
    assert len({one.trajectory_id for one in made}) == 4
    assert "wander" in NAMES and "wander" in SEEDED
