"""Which attempts are made: agents, samples, seeds and temperatures. Nothing is run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from pipeline.agents import FIXED, MODELLED, SEEDED
from pipeline.agents.protocol import Agent
from pipeline.errors import ConfigurationError
from pipeline.llm.protocol import ChatModel, Sampling
from pipeline.types import Difficulty, Record, TaskInstance, content_id, trajectory_id


class SamplesConfig(Record):
    """How often and how freely a model attempts each instance."""

    count: int = Field(default=4, gt=0)
    """Attempts of each agent with a model at each instance."""
    difficulties: tuple[Difficulty, ...] = Field(default=("easy", "medium", "hard"), min_length=1)
    """Of the instances that are attempted with a model."""
    temperatures: tuple[float, ...] = Field(default=(0.2, 0.6, 0.8, 1.0), min_length=1)
    """Of the first sample, the second and so on; from the first one again when there are more samples."""
    top_p: float = Field(default=0.95, gt=0.0, le=1.0)
    max_tokens: int = Field(default=1024, gt=0)
    """Most tokens of one answer."""
    seed: int = 0
    """Another one gives other samples of the same policy."""
    enough: int | None = Field(default=None, gt=0)
    """Verified attempts of one agent after which an instance is not sampled again; None to make all attempts. With it
    the share of passed attempts is no estimate of pass@1 any more."""
    token_details: bool = False
    """Keep token ids and log-probabilities of answers, where the server gives them."""

    def sampling(self, instance_id: str, agent: str, sample: int) -> Sampling:
        """Of one attempt. No two attempts share a seed, but by a chance of one in two thousand million."""
        return Sampling(
            temperature=self.temperatures[sample % len(self.temperatures)],
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            seed=self.seed_of(instance_id, agent, sample),
            token_details=self.token_details,
        )

    def seed_of(self, instance_id: str, agent: str, sample: int) -> int:
        """Of one attempt, below 2**31."""
        digits = content_id("seed", instance_id, agent, sample, self.seed).removeprefix("seed-")
        return int(digits, 16) % 2**31


class Attempt(NamedTuple):
    """One agent at one instance, once."""

    instance: TaskInstance
    agent: Agent
    sample: int

    @property
    def trajectory_id(self) -> str:
        agent = self.agent
        return trajectory_id(self.instance.instance_id, agent.name, agent.model, agent.sampling, self.sample)


def rounds(
    instances: Sequence[TaskInstance], agents: Sequence[str], model: ChatModel | None, config: SamplesConfig
) -> Iterator[list[Attempt]]:
    """The attempts, one sample of everything after the other, so that a stop leaves whole rounds.

    Raises ConfigurationError for an agent that needs a model where there is none.
    """
    if model is None and (needy := sorted(set(agents) & set(MODELLED))):
        raise ConfigurationError(
            f"[rollout] agents: {', '.join(needy)} needs a model; name a server in [model], or leave the agent out"
        )
    for sample in range(config.count if set(agents) & {*MODELLED, *SEEDED} else 1):
        made: list[Attempt] = []
        for instance in instances:
            for name in agents:
                if name in FIXED and sample == 0:
                    made.append(Attempt(instance, FIXED[name], 0))
                elif name in SEEDED:
                    made.append(
                        Attempt(instance, SEEDED[name](config.seed_of(instance.instance_id, name, sample)), sample)
                    )
                elif name in MODELLED and model is not None and instance.difficulty in config.difficulties:
                    sampling = config.sampling(instance.instance_id, name, sample)
                    made.append(Attempt(instance, MODELLED[name](model, sampling), sample))
        yield made


Policy = tuple[str, str, str | None]
"""Instance id, agent, model: what samples are samples of."""


def wanted(attempts: Iterable[Attempt], passed: Mapping[Policy, int], config: SamplesConfig) -> list[Attempt]:
    """Those at instances that were not solved often enough by the same agent with the same model."""
    if config.enough is None:
        return list(attempts)
    return [
        one
        for one in attempts
        if one.agent.model is None
        or passed.get((one.instance.instance_id, one.agent.name, one.agent.model), 0) < config.enough
    ]


def passed_by_policy(rows: Iterable[tuple[Policy, str]]) -> Counter[Policy]:
    """How often each passed, of the policies and the outcomes of verified attempts."""
    return Counter(policy for policy, outcome in rows if outcome == "passed")
