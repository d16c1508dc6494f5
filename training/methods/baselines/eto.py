"""ETO: exploration-based trajectory optimisation, rounds of own failures and DPO of reference solutions over them.

Song et al. 2024, "Trial and Error: Exploration-Based Trajectory Optimization for LLM Agents":

    L = - log sigmoid(beta * (log pi/pi_ref(chosen) - log pi/pi_ref(rejected)))

over whole trajectories, the log-probability of one being the sum over the tokens of its turns. Difference: each round
begins from the policy of the one before, and so does its reference, as in the paper; how long a round is says the
budget, not epochs.
"""

from __future__ import annotations

from torch import Tensor

from training.losses import dpo
from training.methods.baselines.course import Course
from training.methods.baselines.preferences import PairsConfig, TurnsOfPairs, train_on_pairs


class EtoConfig(PairsConfig):
    """See PairsConfig."""


def train(config: EtoConfig, course: Course) -> None:
    """All rounds."""

    def loss(told: TurnsOfPairs) -> Tensor:
        whole = [one.sum(dim=1) for one in told[:4]]
        return dpo(whole[0], whole[1], whole[2], whole[3], config.beta)

    train_on_pairs(config, course, loss)
