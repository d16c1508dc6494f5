"""Best-of-N: an evaluation, no training. N attempts at a task, one of which a selector hands in.

Selectors: `oracle` takes one that the verdict passes if there is any, which nobody can do without the verdict: an upper
bound; `value` takes the attempt whose last state a value head likes best, which was learned from returns of own
attempts at tasks of train; ties go to the attempt that ended with fewer actions, then to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from pipeline.types import Record, TaskInstance
from training.episodes import Episode, Told
from training.methods.baselines.course import Course
from training.roles import ValueHead

Selector = Literal["oracle", "value"]


class BestOfNConfig(Record):
    """How many attempts, and how the head of `value` is learned."""

    attempts: int = Field(default=4, gt=0)
    """N."""
    temperature: float = Field(default=1.0, gt=0.0)
    tasks: int = Field(default=32, gt=0)
    """Tasks that are tried between two looks at the budget."""
    learning_rate: float = Field(default=1e-3, gt=0.0)
    steps: int = Field(default=400, gt=0)
    """Of the head, each over all that is known."""


def learn_head(config: BestOfNConfig, course: Course) -> ValueHead:
    """A head that tells the return of an attempt from its last turn; attempts are made until the budget is spent."""
    torch.manual_seed(course.seed)
    head = ValueHead(course.backbone.hidden_size)
    states: list[Tensor] = []
    returns: list[float] = []
    draw = course.draw("tasks")
    rounds = 0
    while course.share < 1.0:
        tasks = draw.sample(list(course.tasks), min(config.tasks, len(course.tasks)))
        episodes = course.play(tasks, temperature=config.temperature, seed=rounds)
        both = [(one, episode.score) for episode in episodes if (one := course.whole(episode)) is not None]
        states.append(last_states(course, [one for one, _ in both]))
        returns += [score for _, score in both]
        rounds += 1
    known, due = torch.cat(states), torch.tensor(returns)
    optimizer = torch.optim.Adam(head.parameters(), lr=config.learning_rate, weight_decay=1e-3)
    for _ in range(config.steps):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(head(known), due.clamp(0.0, 1.0))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return head


def last_states(course: Course, told: Sequence[Told]) -> Tensor:
    """[E, H]: hidden state at the end of the last turn of each attempt."""
    found = course.scored([[one.sequence] for one in told], lambda batch: course.read(batch).after)
    if not told:
        return torch.zeros(0, course.backbone.hidden_size)
    return torch.stack([of[0, len(one.turns) - 1] for of, one in zip(found, told, strict=True)])


def attempt(
    config: BestOfNConfig, course: Course, tasks: Sequence[TaskInstance], selector: Selector, head: ValueHead | None
) -> list[Episode]:
    """Of each task the attempt that the selector takes."""
    episodes = course.play(tasks, temperature=config.temperature, seed=0, samples=config.attempts)
    groups = [episodes[start : start + config.attempts] for start in range(0, len(episodes), config.attempts)]
    if selector == "oracle":
        return [max(group, key=lambda one: (one.score, -one.steps)) for group in groups]
    assert head is not None
    return [_liked(course, group, head) for group in groups]


def _liked(course: Course, group: Sequence[Episode], head: ValueHead) -> Episode:
    told = [course.whole(one) for one in group]
    able = [(episode, one) for episode, one in zip(group, told, strict=True) if one is not None]
    if not able:
        return group[0]
    with torch.no_grad():
        values = head(last_states(course, [one for _, one in able]))
    return max(zip(able, values.tolist(), strict=True), key=lambda one: (one[1], -one[0][0].steps))[0][0]
