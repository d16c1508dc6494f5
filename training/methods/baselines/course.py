"""What every method is given and no more: a policy to start from, tasks with reference solutions, and a budget.

The policy acts at tasks of train, one attempt after the other as far as the budget goes; what it reads, writes and
learns is counted in one meter (training/loop.py), so that methods that act much learn less.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipeline.types import TaskInstance
from training.batched_policy import BatchedModel
from training.episodes import Episode, Players, Told
from training.loop import Group, LearningConfig, Meter, Optimisation, grouped
from training.roles import Backbone, Read
from training.sequences import Batch, batch_of, of_chat
from training.tokens import ChatTokenizer

ACTOR = "actor"
"""The role of methods with one policy."""


@dataclass
class Course:
    """One training: of one arm, with one seed, in one environment."""

    backbone: Backbone
    """Changed by the method; what it is at the end is the result."""
    model: BatchedModel
    """The same weights, as agents ask them."""
    players: Players
    tokenizer: ChatTokenizer
    tasks: Sequence[TaskInstance]
    """Of train."""
    gold: Sequence[Told]
    """Of each task its reference solution, as the agent `act` would have carried it out."""
    budget: float
    """Token units."""
    learning: LearningConfig
    seed: int
    agent: str = "act"
    meter: Meter = field(default_factory=Meter)

    @property
    def share(self) -> float:
        """Of the budget that is spent, 1 at most."""
        return min(1.0, self.meter.units / self.budget)

    def optimisation(
        self, learning_rate: float, parameters: Sequence[torch.nn.Parameter] | None = None, role: str = ACTOR
    ) -> Optimisation:
        """A new optimizer, of the policy where no parameters are given."""
        config = self.learning.model_copy(update={"learning_rate": learning_rate})
        return Optimisation(self.backbone.parameters(role) if parameters is None else parameters, config, self.meter)

    def draw(self, what: str) -> random.Random:
        """Numbers by chance for one purpose, the same in each run."""
        return random.Random(f"{self.seed} {what}")

    def play(
        self, tasks: Sequence[TaskInstance], *, temperature: float, seed: int, samples: int = 1, role: str = ACTOR
    ) -> list[Episode]:
        """Attempts of the policy as it is now, paid for."""
        self.backbone.use(role)
        self.model.forget()
        read, written = self.model.counts.read, self.model.counts.written
        episodes = self.players.play(tasks, self.agent, temperature=temperature, seed=seed, samples=samples)
        self.meter.read += self.model.counts.read - read
        self.meter.written += self.model.counts.written - written
        self.meter.episodes += len(episodes)
        self.meter.environment_steps += sum(one.steps for one in episodes)
        return episodes

    def read(self, batch: Batch, role: str = ACTOR) -> Read:
        """What the policy says of a batch; the step that it is read for pays."""
        return self.backbone.read(batch, role, bf16=self.learning.bf16)

    def scored(self, groups: Sequence[Group], of: Callable[[Batch], Tensor]) -> list[Tensor]:
        """Of each group what `of` [rows, …] says of its rows by reading them once, without gradient, paid for."""
        found: dict[int, Tensor] = {}
        for numbers in grouped(groups, self.learning.batch_tokens):
            rows = [one for number in numbers for one in groups[number]]
            batch = batch_of(rows)
            with torch.no_grad():
                told = of(batch)
            at = 0
            for number in numbers:
                found[number] = told[at : at + len(groups[number])]
                at += len(groups[number])
            self.meter.scored += sum(len(one.ids) for one in rows)
        return [found[number] for number in range(len(groups))]

    def whole(self, episode: Episode) -> Told | None:
        """An attempt as one sequence, read again where its tokens are not those of its text; None without a turn."""
        if len(episode.told) == 1:
            return episode.told[0]
        turns = tuple(turn for told in episode.told for turn in told.turns)
        if not turns:
            return None
        return Told(of_chat(episode.trajectory.messages, self.tokenizer), turns)


def endless(count: int, draw: random.Random) -> Iterator[int]:
    """The numbers below `count`, each once in an order by chance, and again and again."""
    while True:
        order = list(range(count))
        draw.shuffle(order)
        yield from order


def by_budget(course: Course, until: float, step: Callable[[float], None]) -> None:
    """Take steps until that share of the budget is spent; each is told the share of its own part that is spent."""
    begun = course.share
    while course.share < until:
        step((course.share - begun) / (until - begun))
