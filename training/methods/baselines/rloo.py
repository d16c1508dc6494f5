"""RLOO: REINFORCE with the mean of the other attempts at the task as baseline, online.

Ahmadian et al. 2024, "Back to Basics": the advantage of an attempt is its return minus the mean return of the others.
Differences: attempts are gone over once and the ratio of probabilities is that of tokens, where it is 1 in a first step
and its gradient that of REINFORCE; the distance to the beginning is a loss of its own and no part of the return.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from training.losses import leave_one_out
from training.methods.baselines.course import Course
from training.methods.baselines.online import Attempt, OnlineConfig, train_online


class RlooConfig(OnlineConfig):
    """See OnlineConfig."""

    epochs: int = Field(default=1, gt=0)


def train(config: RlooConfig, course: Course) -> None:
    """Until the budget is spent."""

    def advantages(attempts: Sequence[Attempt]) -> list[Tensor]:
        returns = torch.tensor([one.score for one in attempts])
        worth = leave_one_out(returns, torch.tensor([one.group for one in attempts]))
        return [of.repeat(len(one.told.turns)) for one, of in zip(attempts, worth, strict=True)]

    train_online(config, course, advantages)
