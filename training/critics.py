"""Critics on states that are known: heads that tell Q(state, answer) and V(state) of whole answers.

The hidden states come from a policy that does not change while they are used (training/roles.py), so that a critic is
learned in many small steps without reading a token again. Each fit goes over all transitions in minibatches; the target
of Q is a slow copy, moved once after each step.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from pipeline.types import Record
from training.losses import expectile, q_target
from training.roles import ValueHead


class CriticConfig(Record):
    """How critics are fitted."""

    gamma: float = Field(default=0.99, gt=0.0, le=1.0)
    tau: float = Field(default=0.7, gt=0.0, lt=1.0)
    """Of the expectile: above a half V leans to the better answers."""
    ema: float = Field(default=0.2, gt=0.0, le=1.0)
    """How far the slow copy of Q moves towards Q at each step."""
    learning_rate: float = Field(default=1e-3, gt=0.0)
    epochs: int = Field(default=100, gt=0)
    minibatch: int = Field(default=256, gt=0)
    """Transitions."""


class Transitions(NamedTuple):
    """N answers at one level."""

    before: Tensor
    """[N, H]: the state."""
    after: Tensor
    """[N, H]: the state with the answer."""
    rewards: Tensor
    """[N]."""
    following: Tensor
    """[N] int64: number of the next answer; -1 where there is none."""

    @property
    def done(self) -> Tensor:
        """[N] bool."""
        return self.following < 0


class Critics(NamedTuple):
    """What a fit gives."""

    quality: ValueHead
    """Q, from `after`."""
    slow: ValueHead
    """Its slow copy."""
    value: ValueHead
    """V, from `before`."""

    def advantages(self, known: Transitions) -> Tensor:
        """Q - V [N]."""
        with torch.no_grad():
            found: Tensor = self.quality(known.after) - self.value(known.before)
        return found


def fit_iql(config: CriticConfig, known: Transitions, seed: int) -> Critics:
    """Implicit Q-learning (Kostrikov et al. 2022): V is an expectile of the slow Q, Q is told r + gamma V(next state).

    Never asks what an answer that was not given would be worth. Raises ValueError without transitions.
    """
    torch.manual_seed(seed)
    quality, value = (ValueHead(known.before.shape[1]) for _ in range(2))
    slow = copy.deepcopy(quality).requires_grad_(False)
    optimizer = torch.optim.Adam([*quality.parameters(), *value.parameters()], lr=config.learning_rate)
    later = known.before[known.following.clamp(min=0)]
    for part in _parts(config, len(known.rewards), seed):
        with torch.no_grad():
            due = q_target(known.rewards[part], value(later[part]), known.done[part], config.gamma)
            liked = slow(known.after[part])
        wrong = (quality(known.after[part]) - due) ** 2
        loss = wrong.mean() + expectile(liked - value(known.before[part]), config.tau).mean()
        _step(optimizer, loss, slow, quality, config.ema)
    return Critics(quality, slow, value)


def fit_sarsa(config: CriticConfig, known: Transitions, seed: int, start: ValueHead) -> tuple[ValueHead, ValueHead]:
    """(Q, its slow copy) of the policy that gave the answers: Q is told r + gamma Q(next state, next answer).

    Begins from `start`, which stays as it is. Raises ValueError without transitions.
    """
    quality = copy.deepcopy(start).requires_grad_(True)
    slow = copy.deepcopy(start).requires_grad_(False)
    optimizer = torch.optim.Adam(quality.parameters(), lr=config.learning_rate)
    later = known.after[known.following.clamp(min=0)]
    for part in _parts(config, len(known.rewards), seed):
        with torch.no_grad():
            due = q_target(known.rewards[part], slow(later[part]), known.done[part], config.gamma)
        _step(optimizer, ((quality(known.after[part]) - due) ** 2).mean(), slow, quality, config.ema)
    return quality, slow


def _parts(config: CriticConfig, count: int, seed: int) -> Iterator[Tensor]:
    if not count:
        raise ValueError("there are no transitions to learn a critic from")
    draw = torch.Generator().manual_seed(seed)
    for _ in range(config.epochs):
        yield from torch.split(torch.randperm(count, generator=draw), config.minibatch)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor, slow: ValueHead, quality: ValueHead, ema: float) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(slow.parameters(), quality.parameters(), strict=True):
            old.lerp_(new, ema)
