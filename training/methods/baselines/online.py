"""What the online methods share: the policy attempts tasks, learns from these attempts, and acts again.

A batch of attempts is several at each of some tasks. The return of an attempt is its last score; all that was learned
before is left behind, and the same attempts are gone over `epochs` times, which ratios of probabilities allow for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from pipeline.types import Record
from training.episodes import Told
from training.loop import Optimisation
from training.losses import clipped_policy, k3, per_token
from training.methods.baselines.course import ACTOR, Course
from training.roles import Reader
from training.sequences import Batch


class OnlineConfig(Record):
    """How the policy acts and learns."""

    learning_rate: float = Field(default=3e-4, gt=0.0)
    tasks: int = Field(default=8, gt=0)
    """Of a batch."""
    samples: int = Field(default=8, gt=1)
    """Attempts at each task."""
    temperature: float = Field(default=1.0, gt=0.0)
    epochs: int = Field(default=2, gt=0)
    minibatch: int = Field(default=32, gt=0)
    """Attempts of a step."""
    low: float = Field(default=0.2, gt=0.0)
    high: float = Field(default=0.2, gt=0.0)
    """Bounds of the ratio of probabilities: 1 - low, 1 + high."""
    kl: float = Field(default=0.02, ge=0.0)
    """Weight of the distance to the policy that training began with."""


class Attempt(NamedTuple):
    """One attempt as it is learned from."""

    told: Told
    group: int
    """Number of its task."""
    score: float


class Marked(NamedTuple):
    """An attempt with what its turns were worth [N], and the policy's own log-probabilities [T] when it acted."""

    told: Told
    advantages: Tensor
    old: Tensor
    reference: Tensor | None
    """Log-probabilities of the policy that training began with; None where it is not held to it."""


Advantages = Callable[[Sequence[Attempt]], list[Tensor]]
"""Of each attempt the advantage of each turn [N]."""


def batches_of_attempts(config: OnlineConfig, course: Course, number: int) -> list[Attempt]:
    """The attempts of one batch; those in which nothing was said are left out."""
    tasks = course.draw(f"tasks {number}").sample(list(course.tasks), min(config.tasks, len(course.tasks)))
    episodes = course.play(tasks, temperature=config.temperature, seed=number, samples=config.samples)
    found = []
    for place, episode in enumerate(episodes):
        told = course.whole(episode)
        if told is not None:
            found.append(Attempt(told, place // config.samples, episode.score))
    return found


def train_online(config: OnlineConfig, course: Course, advantages: Advantages) -> None:
    """Act and learn until the budget is spent. Attempts whose advantages are all 0 teach nothing and cost no step."""
    optimisation = course.optimisation(config.learning_rate)
    reference = course.backbone.reference(ACTOR) if config.kl else None
    number = 0
    while course.share < 1.0:
        attempts = batches_of_attempts(config, course, number)
        worth = advantages(attempts)
        kept = [(one.told, of) for one, of in zip(attempts, worth, strict=True) if bool(of.abs().sum() > 0)]
        learn(config, course, optimisation, marked(course, kept, reference), f"batch {number}")
        number += 1


def marked(course: Course, kept: Sequence[tuple[Told, Tensor]], reference: Reader | None = None) -> list[Marked]:
    """With the log-probabilities of now, and of the reference where there is one."""
    groups = [[told.sequence] for told, _ in kept]
    old = course.scored(groups, lambda batch: course.read(batch).logprobs)
    if reference is None:
        return [Marked(told, of, old[place][0], None) for place, (told, of) in enumerate(kept)]
    held = course.scored(groups, lambda batch: reference(batch, bf16=course.learning.bf16).logprobs)
    return [Marked(told, of, old[place][0], held[place][0]) for place, (told, of) in enumerate(kept)]


def learn(
    config: OnlineConfig,
    course: Course,
    optimisation: Optimisation,
    material: Sequence[Marked],
    name: str,
) -> None:
    """Go over attempts `epochs` times."""
    draw = course.draw(name)
    for _ in range(config.epochs):
        order = list(range(len(material)))
        draw.shuffle(order)
        for start in range(0, len(order), config.minibatch):
            if course.share >= 1.0:
                return
            _step(config, course, optimisation, material, order[start : start + config.minibatch])


def _step(
    config: OnlineConfig,
    course: Course,
    optimisation: Optimisation,
    material: Sequence[Marked],
    chosen: Sequence[int],
) -> None:
    total = sum(material[number].told.sequence.n_written for number in chosen)

    def loss_of(batch: Batch, numbers: Sequence[int]) -> Tensor:
        rows = [material[chosen[number]] for number in numbers]
        read = course.read(batch)
        worth = per_token(_wide([row.advantages for row in rows], batch.n_turns), batch.turns)
        width = batch.ids.shape[1]
        loss, _ = clipped_policy(
            read.logprobs, _wide([row.old for row in rows], width), worth, batch.turns, config.low, config.high, total
        )
        held = [row.reference for row in rows if row.reference is not None]
        if held:
            loss = loss + config.kl * k3(read.logprobs, _wide(held, width), batch.turns).sum() / total
        return loss

    optimisation.step([[material[number].told.sequence] for number in chosen], loss_of, course.share)


def _wide(rows: Sequence[Tensor], width: int) -> Tensor:
    """[rows, width] of rows of different lengths, 0 behind them; what is longer than `width` is 0 there anyway."""
    found = torch.zeros(len(rows), width)
    for place, row in enumerate(rows):
        known = row[:width]
        found[place, : len(known)] = known
    return found
