"""The steps of training that all methods take: groups of sequences in, a step of the optimizer out, all of it counted.

What one experiment may spend is a number of token units: a token that is learned from (read forward and backward) is
one, a token that is only read or written (acting, references, values) a third, for a forward pass is a third of that
work. Seconds depend on the machine and are told beside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
from pydantic import Field
from torch import Tensor

from pipeline.types import Record
from training.sequences import Batch, TokenSequence, batch_of

FORWARD = 1 / 3
"""Units of a token that is not learned from."""

Group = Sequence[TokenSequence]
"""Sequences that a loss needs side by side."""
LossOf = Callable[[Batch, Sequence[int]], Tensor]
"""The loss of the groups with these numbers, whose sequences are the rows of the batch, one group after the other. Its
sum over the batches of a step is the loss of the step, so it is divided by what is known of the step before."""


class Meter:
    """What was spent."""

    def __init__(self) -> None:
        self.learned = 0
        """Tokens of sequences that a step was made from, once for each time."""
        self.scored = 0
        """Tokens read for references, old log-probabilities and values."""
        self.read = 0
        """Tokens of prompts read while acting."""
        self.written = 0
        self.environment_steps = 0
        self.episodes = 0
        self._begun = time.process_time()

    @property
    def units(self) -> float:
        """See this module."""
        return self.learned + FORWARD * (self.scored + self.read + self.written)

    @property
    def cpu_s(self) -> float:
        """CPU time of this process since the meter was made, s, without that of games, which have their own."""
        return time.process_time() - self._begun


class LearningConfig(Record):
    """How the optimizer steps: AdamW."""

    learning_rate: float = Field(default=1e-3, gt=0.0)
    """Highest one: linear warm-up, then a cosine down to a tenth, by the share of the budget that is spent."""
    warmup_share: float = Field(default=0.05, ge=0.0, lt=1.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    max_grad_norm: float = Field(default=1.0, gt=0.0)
    batch_tokens: int = Field(default=8192, gt=0)
    """Places, filling included, that are computed at once."""
    bf16: bool = True
    """Compute in bfloat16; weights stay in float32."""


class Optimisation:
    """An optimizer with its schedule and its meter."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], config: LearningConfig, meter: Meter) -> None:
        self._parameters = list(parameters)
        self._config = config
        self._meter = meter
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=config.weight_decay
        )

    def step(self, groups: Sequence[Group], loss_of: LossOf, share: float) -> float:
        """One step on all groups; its loss. `share` of the budget is spent so far. Raises ValueError for no number."""
        for settings in self._optimizer.param_groups:
            settings["lr"] = self._config.learning_rate * scale(share, self._config.warmup_share)
        self._optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for numbers in grouped(groups, self._config.batch_tokens):
            loss = loss_of(batch_of([one for number in numbers for one in groups[number]]), numbers)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not math.isfinite(total):
            raise ValueError("the loss is no number; a lower learning rate may help")
        torch.nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        self._optimizer.step()
        self._meter.learned += sum(len(one.ids) for group in groups for one in group)
        return total


def grouped(groups: Sequence[Group], most_tokens: int) -> list[list[int]]:
    """Numbers of groups in batches of at most `most_tokens` places, filling included; alike lengths go together.

    A group that is longer by itself is a batch of its own.
    """
    longest = [max(len(one.ids) for one in group) for group in groups]
    found: list[list[int]] = []
    rows = 0
    for number in sorted(range(len(groups)), key=lambda one: (-longest[one], one)):
        size = len(groups[number])
        if not found or (rows + size) * longest[found[-1][0]] > most_tokens:
            found.append([])
            rows = 0
        found[-1].append(number)
        rows += size
    return found


def scale(share: float, warmup: float) -> float:
    """Of the learning rate when `share` of the budget is spent."""
    if share < warmup:
        return (share + 0.1 * warmup) / (1.1 * warmup)
    past = min(1.0, (share - warmup) / (1 - warmup))
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * past))
