"""DMPO: direct preference optimisation of many turns, in which earlier turns count more and long attempts not more.

Shi et al. 2024, "Direct Multi-Turn Preference Optimization for Language Agents": as DPO, each turn t of T weighted with
phi(t, T) = (1 - gamma^(T - t)) / (1 - gamma^T). The pairs are those of ETO; in the paper they are made once.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from training.losses import dmpo
from training.methods.baselines.course import Course
from training.methods.baselines.preferences import PairsConfig, TurnsOfPairs, train_on_pairs


class DmpoConfig(PairsConfig):
    """See PairsConfig."""

    rounds: int = Field(default=1, gt=0)
    gamma: float = Field(default=0.9, gt=0.0, le=1.0)
    """How fast later turns count less."""


def train(config: DmpoConfig, course: Course) -> None:
    """All rounds."""

    def loss(told: TurnsOfPairs) -> Tensor:
        return dmpo(*told, beta=config.beta, gamma=config.gamma)

    train_on_pairs(config, course, loss)
