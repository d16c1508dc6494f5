"""Rejection-sampling fine-tuning: own attempts that passed are cloned together with the reference solutions.

Yuan et al. 2023, "Scaling Relationship on Learning Mathematical Reasoning with Large Language Models": attempts are
sampled, those that do not pass are rejected, equal ones count once. Here an attempt is an episode, and equal ones have
equal actions. Difference: the policy that samples is the one that is trained on, as the budget is small.
"""

from __future__ import annotations

from pydantic import Field

from pipeline.types import Record
from training.methods.baselines.bc import BcConfig, clone
from training.methods.baselines.course import Course
from training.sequences import TokenSequence


class RftConfig(Record):
    """How it samples and learns."""

    sampling_share: float = Field(default=0.4, gt=0.0, lt=1.0)
    """Of the budget, spent on attempts."""
    tasks: int = Field(default=32, gt=0)
    """Tasks that are tried between two looks at the budget."""
    temperature: float = Field(default=1.0, gt=0.0)
    cloning: BcConfig = BcConfig(learning_rate=2e-3)


def train(config: RftConfig, course: Course) -> None:
    """Sample, reject, clone."""
    own = successes(config, course)
    clone(config.cloning, course, [*(told.sequence for told in course.gold), *own], 1.0)


def successes(config: RftConfig, course: Course) -> list[TokenSequence]:
    """Own attempts that passed, no two of a task with equal actions, none with those of the reference solution."""
    known = {(task.instance_id, task.solution) for task in course.tasks}
    draw = course.draw("tasks")
    found = []
    rounds = 0
    while course.share < config.sampling_share:
        tasks = draw.sample(list(course.tasks), min(config.tasks, len(course.tasks)))
        for episode in course.play(tasks, temperature=config.temperature, seed=rounds):
            key = (episode.instance.instance_id, tuple(step.action for step in episode.trajectory.steps))
            told = course.whole(episode)
            if episode.passed and key not in known and told is not None:
                known.add(key)
                found.append(told.sequence)
        rounds += 1
    return found
