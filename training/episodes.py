"""Attempts of a policy in training: many at a time, each in the one rollout loop, with the tokens of its turns.

Nothing is judged here but what the environment says: an attempt passed when its last score is full. A broken
environment is no attempt: it is made again, and after TRIES the fault leaves as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.agents import MODELLED
from pipeline.agents.protocol import Agent
from pipeline.llm.protocol import ChatModel, Sampling
from pipeline.rollout import RolloutConfig, rollout
from pipeline.stages.game_verdicts import score_of
from pipeline.types import TaskInstance, Trajectory
from sandbox.errors import SandboxUnavailable
from training.batched_policy import BatchedModel
from training.environments.suite import Suite
from training.sequences import TokenSequence, of_calls

TRIES = 3
"""Times an attempt is begun whose environment breaks."""


Make = Callable[[ChatModel, Sampling], Agent]
"""Makes an agent of a model."""


class Turn(NamedTuple):
    """What became of one answer of the policy."""

    purpose: str
    """`decision`, or `plan` of a planner."""
    step: int
    """Number of the decision in the attempt; several answers may belong to one."""
    reward: float
    """What the environment gave for the action; 0 for a plan."""
    rejected: bool
    """The action was none that the environment knows."""
    finished: bool
    """The executor said that its sub-goal is reached."""


class Told(NamedTuple):
    """Tokens, and of each turn in them what became of it."""

    sequence: TokenSequence
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Episode:
    """One attempt."""

    instance: TaskInstance
    trajectory: Trajectory
    told: tuple[Told, ...]
    """In the order in which they were begun."""

    @property
    def score(self) -> float:
        """The last one, 1 is full."""
        return score_of(self.trajectory)

    @property
    def passed(self) -> bool:
        return self.score >= 1.0

    @property
    def steps(self) -> int:
        """Actions that the environment was given."""
        return sum(bool(step.action) for step in self.trajectory.steps)


class Players:
    """Attempts at tasks of one suite by the policy of one model."""

    def __init__(
        self,
        suite: Suite,
        model: BatchedModel,
        seats: int,
        budgets: RolloutConfig,
        max_tokens: int,
        agents: Mapping[str, Make] = MODELLED,
    ) -> None:
        """`seats` attempts at a time, for which the suite must have environments; `max_tokens` of an answer."""
        self._suite = suite
        self._model = model
        self._seats = seats
        self._budgets = budgets
        self.max_tokens = max_tokens
        self._agents = agents
        self.environment_steps = 0
        self.episodes = 0

    def play(
        self, tasks: Sequence[TaskInstance], agent: str, *, temperature: float, seed: int, samples: int = 1
    ) -> list[Episode]:
        """`samples` attempts at each task, those of a task one after the other. Raises SandboxUnavailable."""
        asked = [(task, sample) for task in tasks for sample in range(samples)]
        found: dict[int, Episode] = {}
        for _ in range(TRIES):
            left = [number for number in range(len(asked)) if number not in found]
            faults: list[SandboxUnavailable] = []
            for start in range(0, len(left), self._seats):
                wave = left[start : start + self._seats]
                made = self._wave([asked[number] for number in wave], agent, temperature, seed)
                for number, one in zip(wave, made, strict=True):
                    if isinstance(one, Episode):
                        found[number] = one
                    else:
                        faults.append(one)
            if not faults:
                break
        else:
            raise faults[0]
        episodes = [found[number] for number in range(len(asked))]
        self.episodes += len(episodes)
        self.environment_steps += sum(one.steps for one in episodes)
        return episodes

    def _wave(
        self, asked: Sequence[tuple[TaskInstance, int]], agent: str, temperature: float, seed: int
    ) -> list[Episode | SandboxUnavailable]:
        make = self._agents[agent]
        seats = range(len(asked))
        self._model.take(seats)

        def attempt(seat: int) -> Episode | SandboxUnavailable:
            task, sample = asked[seat]
            sampling = Sampling(
                temperature=temperature,
                max_tokens=self.max_tokens,
                seed=seed * 1_000 + sample,
                token_details=True,
            )
            with self._model.seated(seat):
                acting = make(self._model, sampling)
                try:
                    with self._suite.opened(task, acting.interface) as environment:
                        trajectory = rollout(task, acting, environment, self._budgets, sample=sample)
                except SandboxUnavailable as error:
                    return error
            return Episode(task, trajectory, tuple(told_of(trajectory)))

        with ThreadPoolExecutor(len(asked)) as threads:
            return list(threads.map(attempt, seats))


def told_of(trajectory: Trajectory) -> Iterator[Told]:
    """The tokens that the policy read and wrote in an attempt whose calls tell them."""
    calls: list[Mapping[str, object]] = []
    turns = []
    for step in trajectory.steps:
        for call in step.extra.get("calls", ()):
            plan = call.get("purpose") == "plan"
            calls.append(call)
            turns.append(
                Turn(
                    purpose=str(call.get("purpose", "decision")),
                    step=step.index,
                    reward=0.0 if plan else float(step.extra.get("reward", 0.0)),
                    rejected=not plan and (bool(step.extra.get("rejected")) or not step.action),
                    finished=not plan and bool(step.extra.get("finished")),
                )
            )
    pairs = [(call["prompt_token_ids"], call["completion_token_ids"]) for call in calls]
    for sequence, numbers in of_calls(pairs):  # type: ignore[arg-type]  # ids, of calls that were asked for them
        yield Told(sequence, tuple(turns[number] for number in numbers))
