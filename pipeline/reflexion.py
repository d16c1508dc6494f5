"""Tries at one task until one passes, each after a look back at the failure before: Reflexion.

Shinn et al. 2023. Each try is an attempt of the agent `reflexion` in the one rollout loop and a trajectory of its own,
whose `sample` is the number of the try. After a failed one the model writes down what went wrong; it reads the try and
that it failed, never the solution, the tests or what they said. A fault of ours is no failure: the try is begun again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipeline.agents.bash_chat import cut
from pipeline.agents.calling import ask
from pipeline.agents.protocol import ContextFull
from pipeline.agents.react_chat import forms
from pipeline.agents.reflexion import CRITIQUE, ReflexionAgent
from pipeline.interfaces import Environments
from pipeline.llm.protocol import ChatModel, Message, Sampling
from pipeline.prompts import prompt
from pipeline.rollout import RolloutConfig, rollout
from pipeline.types import ModelCall, Record, StopReason, TaskInstance, Trajectory, VerificationResult
from sandbox.errors import SandboxUnavailable

logger = logging.getLogger(__name__)

BEGUN = 3
"""Times a try, or its verdict, is begun whose sandbox breaks."""
_BEGINNING = 300
"""Characters of each end of what was seen first."""
_ENDED: Mapping[StopReason, str] = {
    "submitted": "you said that the task is done",
    "done": "nothing more could be done",
    "max_steps": "you had no steps left",
    "max_seconds": "you had no time left",
    "max_context": "you could not read on, since it became too long",
}
_SPENT = "your budget was used up"

Judge = Callable[[TaskInstance, Trajectory], VerificationResult]
"""The verdict on an attempt. Raises SandboxUnavailable where nothing may be concluded."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class Try:
    """One try and its verdict."""

    trajectory: Trajectory
    result: VerificationResult

    @property
    def number(self) -> int:
        """From 0."""
        return self.trajectory.sample


class TriesFigures(Record):
    """How many tasks were solved, and in which try."""

    tasks: int
    """With a verdict on the first try."""
    passed_first: int
    """In the first try, before any look back: strict pass@1 is the share of these alone."""
    passed_within: tuple[int, ...]
    """In one of the first two tries, the first three and so on; shown apart."""


def tries(
    task: TaskInstance,
    model: ChatModel,
    sampling: Sampling,
    environments: Environments,
    judged: Judge,
    budgets: RolloutConfig,
    *,
    most: int,
) -> Iterator[Try]:
    """Up to `most` tries, each with the budgets of an attempt; no further one after a pass or without a verdict.

    Each try has a seed of its own: `sampling`'s, one more with each try. Raises SandboxUnavailable for what breaks
    BEGUN times, and what the ChatModel, the environments and `judged` raise otherwise; the tries before were given out.
    """
    critiques: list[ModelCall] = []
    for number in range(most):
        seed = None if sampling.seed is None else sampling.seed + number
        of_this = sampling.model_copy(update={"seed": seed})
        made = _made(task, ReflexionAgent(model, of_this, critiques), environments, judged, budgets, number)
        yield made
        if made.result.outcome != "failed" or number + 1 == most:
            return
        try:
            critiques.append(criticised(task, made.trajectory, model, of_this))
        except ContextFull:
            return


def criticised(task: TaskInstance, failed: Trajectory, model: ChatModel, sampling: Sampling) -> ModelCall:
    """What the model says of its failed try. Raises ContextFull, and what ChatModel raises otherwise."""
    _, call = ask(model, _questions(task, failed), sampling)
    return call.model_copy(update={"purpose": "critique"})


def figures_of(tried: Iterable[Sequence[Try]], most: int) -> TriesFigures:
    """`tried`: the tries at each task, in their order; `most` as they were made."""
    known = [tries for tries in tried if tries and tries[0].result.outcome != "error"]

    def within(count: int) -> int:
        return sum(any(one.result.outcome == "passed" for one in tries[:count]) for tries in known)

    passed = tuple(within(count) for count in range(2, most + 1))
    return TriesFigures(tasks=len(known), passed_first=within(1), passed_within=passed)


def _made(
    task: TaskInstance,
    agent: ReflexionAgent,
    environments: Environments,
    judged: Judge,
    budgets: RolloutConfig,
    number: int,
) -> Try:
    def attempt() -> Trajectory:
        with environments.opened(task, agent.interface) as environment:
            acted = rollout(task, agent, environment, budgets, sample=number)
        return acted.model_copy(update={"backend": environments.name})

    trajectory = _unbroken(attempt)
    return Try(trajectory, _unbroken(lambda: judged(task, trajectory)))


def _unbroken(work: Callable[[], Found]) -> Found:
    for _ in range(BEGUN - 1):
        try:
            return work()
        except SandboxUnavailable as error:
            logger.warning("begun again: %s", error)
    return work()


def _questions(task: TaskInstance, failed: Trajectory) -> Iterator[list[Message]]:
    """The question about a try, then forms of it that leave more and more of old outputs out."""
    handed_in = failed.stop_reason == "submitted"
    last = "" if handed_in or not failed.steps else str(failed.steps[-1].extra.get("after", ""))
    begun = [f"Observation: {cut(one.observation, _BEGINNING)}" for one in failed.steps[:1] if one.observation]
    for chat in forms(task, failed.steps, last):
        said = [*begun, *(one.content for one in chat[1 : -1 if handed_in else None])]
        text = prompt(CRITIQUE).render(
            task=task.instruction,
            attempt="\n".join(said) or "(nothing was done)",
            ended=_ENDED.get(failed.stop_reason, _SPENT),
        )
        yield [Message(role="user", content=text)]
