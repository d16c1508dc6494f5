"""PPO: proximal policy optimisation, online, with a critic that tells the value of the state before each turn.

Schulman et al. 2017. A turn is one action: its tokens share its advantage, which generalised advantage estimation gives
from the rewards of turns; the ratio that is clipped is that of a token, as in most work on language models. The critic
is a head on the frozen hidden state before the turn (training/roles.py), so that it does not pull at the policy; its
learning rate is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from training.losses import clipped_value, gae
from training.methods.baselines.course import ACTOR, Course
from training.methods.baselines.online import Attempt, OnlineConfig, batches_of_attempts, learn, marked
from training.roles import Read, ValueHead
from training.sequences import Batch


class PpoConfig(OnlineConfig):
    """See OnlineConfig."""

    samples: int = Field(default=4, gt=0)
    tasks: int = Field(default=16, gt=0)
    gamma: float = Field(default=0.99, gt=0.0, le=1.0)
    lam: float = Field(default=0.95, ge=0.0, le=1.0)
    value_learning_rate: float = Field(default=1e-3, gt=0.0)
    value_clip: float | None = Field(default=0.2, gt=0.0)
    normalised: bool = True
    """Advantages of a batch have mean 0 and deviation 1."""


def train(config: PpoConfig, course: Course) -> None:
    """Until the budget is spent."""
    torch.manual_seed(course.seed)
    critic = Critic(config, course)
    optimisation = course.optimisation(config.learning_rate)
    reference = course.backbone.reference(ACTOR) if config.kl else None
    number = 0
    while course.share < 1.0:
        attempts = batches_of_attempts(config, course, number)
        values = critic.values(attempts)
        worth, due = advantages(config, attempts, values)
        kept = list(zip((one.told for one in attempts), worth, strict=True))
        critic.learn(attempts, values, due)
        learn(config, course, optimisation, marked(course, kept, reference), f"batch {number}")
        number += 1


def advantages(
    config: PpoConfig, attempts: Sequence[Attempt], values: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """(advantages, returns) of the turns of each attempt [N], from V before each turn."""
    lengths = torch.tensor([len(one.told.turns) for one in attempts])
    rewards = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor([turn.reward for turn in one.told.turns]) for one in attempts], batch_first=True
    )
    known = torch.nn.utils.rnn.pad_sequence(list(values), batch_first=True)
    worth, due = gae(rewards, known, lengths, config.gamma, config.lam)
    if config.normalised:
        every = torch.cat([row[:length] for row, length in zip(worth, lengths, strict=True)])
        worth = (worth - every.mean()) / (every.std() + 1e-8)
    pairs = zip(worth, due, lengths, strict=True)
    cut = [(row[:length], of[:length]) for row, of, length in pairs]
    return [row for row, _ in cut], [of for _, of in cut]


class Critic:
    """V of the state before a turn."""

    def __init__(self, config: PpoConfig, course: Course) -> None:
        self._config = config
        self._course = course
        self._head = ValueHead(course.backbone.hidden_size)
        self._optimizer = torch.optim.Adam(self._head.parameters(), lr=config.value_learning_rate)
        self._states: list[Tensor] = []

    def values(self, attempts: Sequence[Attempt]) -> list[Tensor]:
        """V before each turn [N] of each attempt; the states are kept for `learn`."""
        course = self._course

        def states(batch: Batch) -> Tensor:
            read: Read = course.read(batch, ACTOR)
            return read.before

        groups = [[one.told.sequence] for one in attempts]
        found = course.scored(groups, states)
        lengths = [len(one.told.turns) for one in attempts]
        self._states = [of[0, :length] for of, length in zip(found, lengths, strict=True)]
        with torch.no_grad():
            return [self._head(of) for of in self._states]

    def learn(self, attempts: Sequence[Attempt], old: Sequence[Tensor], due: Sequence[Tensor]) -> None:
        """As many steps as there are epochs and minibatches; heads are small and their tokens are not read again."""
        states, values, returns = torch.cat(self._states), torch.cat(list(old)), torch.cat(list(due))
        draw = torch.Generator().manual_seed(self._course.seed)
        size = self._config.minibatch * max(1, len(states) // max(1, len(attempts)))
        for _ in range(self._config.epochs):
            for part in torch.split(torch.randperm(len(states), generator=draw), size):
                loss = clipped_value(
                    self._head(states[part]),
                    values[part],
                    returns[part],
                    torch.ones(len(part), dtype=torch.bool),
                    self._config.value_clip,
                )
                self._optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self._optimizer.step()
