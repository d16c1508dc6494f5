"""GRPO: group-relative policy optimisation, online, without a critic.

Shao et al. 2024, "DeepSeekMath", section 4.1: the advantage of every token of an attempt is its return minus the mean
of the attempts at the same task, divided by their standard deviation; clipped ratios of tokens, and the distance to the
policy that training began with as a loss (k3). Difference: the sum over tokens is divided by the tokens of the step and
not by those of each attempt (DAPO, Yu et al. 2025), so that long failures are not made cheap. An attempt has several
turns; only they are learned.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.losses import group_advantages
from training.methods.baselines.course import Course
from training.methods.baselines.online import Attempt, OnlineConfig, train_online


class GrpoConfig(OnlineConfig):
    """See OnlineConfig."""

    scaled: bool = True
    """Divide by the standard deviation of the group."""


def train(config: GrpoConfig, course: Course) -> None:
    """Until the budget is spent."""

    def advantages(attempts: Sequence[Attempt]) -> list[Tensor]:
        returns = torch.tensor([one.score for one in attempts])
        worth = group_advantages(returns, torch.tensor([one.group for one in attempts]), config.scaled)
        return [of.repeat(len(one.told.turns)) for one, of in zip(attempts, worth, strict=True)]

    train_online(config, course, advantages)
