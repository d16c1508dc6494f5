"""Behaviour cloning: the turns of reference solutions are learned as they are.

    L = - sum_{i in turns} log p(token_i | all before it) / number of such tokens of the step

`more_bc` is the same on a larger budget from where `bc` ended: what every other method has to beat, for it spends what
they do. Reads reference solutions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from pydantic import Field
from torch import Tensor

from pipeline.types import Record
from training.losses import nll
from training.methods.baselines.course import ACTOR, Course, by_budget, endless
from training.sequences import Batch, TokenSequence


class BcConfig(Record):
    """How turns are cloned."""

    learning_rate: float = Field(default=4e-3, gt=0.0)
    sequences: int = Field(default=4, gt=0)
    """Of a step."""


def train(config: BcConfig, course: Course) -> None:
    """Clone the reference solutions until the budget is spent."""
    clone(config, course, [told.sequence for told in course.gold], 1.0)


def clone(config: BcConfig, course: Course, material: Sequence[TokenSequence], until: float, role: str = ACTOR) -> None:
    """Clone sequences until that share of the budget is spent. Raises ValueError for none."""
    if not material:
        raise ValueError("there is nothing to clone")
    optimisation = course.optimisation(config.learning_rate, role=role)
    order = endless(len(material), course.draw("clone"))

    def step(share: float) -> None:
        chosen = [material[number] for number in islice(order, config.sequences)]
        total = sum(one.n_written for one in chosen)

        def loss_of(batch: Batch, numbers: Sequence[int]) -> Tensor:
            del numbers
            return nll(course.read(batch, role).logprobs, batch.turns, total)

        optimisation.step([[one] for one in chosen], loss_of, share)

    by_budget(course, until, step)
