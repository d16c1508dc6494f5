"""Pairs of a reference solution and an own failure at the same task, which ETO and DMPO learn from.

Rounds of exploring and learning: in each the policy attempts tasks, its failures are paired, and the policy at the
beginning of the round is the reference that it is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from pipeline.types import Record
from training.losses import per_turn
from training.methods.baselines.course import ACTOR, Course, by_budget, endless
from training.sequences import Batch, TokenSequence


class PairsConfig(Record):
    """How pairs are made and learned from."""

    rounds: int = Field(default=2, gt=0)
    exploring_share: float = Field(default=0.4, gt=0.0, lt=1.0)
    """Of a round's budget, spent on attempts."""
    tasks: int = Field(default=32, gt=0)
    """Tasks that are tried between two looks at the budget."""
    temperature: float = Field(default=1.0, gt=0.0)
    learning_rate: float = Field(default=3e-4, gt=0.0)
    pairs: int = Field(default=4, gt=0)
    """Of a step."""
    beta: float = Field(default=0.1, gt=0.0)


class TurnsOfPairs(NamedTuple):
    """Log-probabilities of turns [P, N] of P pairs, and how many turns there are [P]."""

    chosen: Tensor
    rejected: Tensor
    ref_chosen: Tensor
    ref_rejected: Tensor
    lengths_chosen: Tensor
    lengths_rejected: Tensor


LossOfPairs = Callable[[TurnsOfPairs], Tensor]
"""[P] of P pairs."""
Pair = tuple[TokenSequence, TokenSequence]
"""Chosen and rejected."""


def train_on_pairs(config: PairsConfig, course: Course, loss: LossOfPairs) -> None:
    """All rounds. A round in which nothing failed has nothing to learn and leaves its budget to the next one."""
    for number in range(config.rounds):
        begun = course.share
        until = begun + (1.0 - begun) / (config.rounds - number)
        pairs = _explored(config, course, number, begun + config.exploring_share * (until - begun))
        if pairs:
            learn_pairs(config, course, pairs, until, loss)


def _explored(config: PairsConfig, course: Course, number: int, until: float) -> list[Pair]:
    gold = {task.instance_id: told.sequence for task, told in zip(course.tasks, course.gold, strict=True)}
    draw = course.draw(f"tasks of round {number}")
    pairs = []
    times = 0
    while course.share < until:
        tasks = draw.sample(list(course.tasks), min(config.tasks, len(course.tasks)))
        for episode in course.play(tasks, temperature=config.temperature, seed=1_000 * (number + 1) + times):
            told = course.whole(episode)
            if not episode.passed and told is not None:
                pairs.append((gold[episode.instance.instance_id], told.sequence))
        times += 1
    return pairs


def learn_pairs(config: PairsConfig, course: Course, pairs: Sequence[Pair], until: float, loss: LossOfPairs) -> None:
    """Learn until that share of the budget is spent; the policy as it is now is the reference."""
    before = course.backbone.reference(ACTOR)
    reference: dict[int, Tensor] = {}
    optimisation = course.optimisation(config.learning_rate)
    order = endless(len(pairs), course.draw("pairs"))

    def step(share: float) -> None:
        chosen = list(islice(order, min(config.pairs, len(pairs))))
        new = [number for number in chosen if number not in reference]  # most may never come up
        told = course.scored(
            [pairs[number] for number in new],
            lambda batch: _by_turn(before(batch, bf16=course.learning.bf16).logprobs, batch, pairs),
        )
        reference.update(zip(new, told, strict=True))

        def loss_of(batch: Batch, numbers: Sequence[int]) -> Tensor:
            turns = _by_turn(course.read(batch).logprobs, batch, pairs)
            held = torch.cat([reference[chosen[number]] for number in numbers])
            both = TurnsOfPairs(
                turns[0::2], turns[1::2], held[0::2], held[1::2], batch.lengths[0::2], batch.lengths[1::2]
            )
            return loss(both).sum() / len(chosen)

        optimisation.step([pairs[number] for number in chosen], loss_of, share)

    by_budget(course, until, step)


def _by_turn(logprobs: Tensor, batch: Batch, pairs: Sequence[Pair]) -> Tensor:
    """Log-probabilities of turns, as wide as the longest of all pairs."""
    return per_turn(logprobs, batch.turns, max(len(one.turns) for pair in pairs for one in pair), "sum")
