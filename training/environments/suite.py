"""Environments as the pipeline sees them: task instances with their gold path, opened for the one rollout loop."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from pipeline.errors import ConfigurationError
from pipeline.interfaces import Environments
from pipeline.stages.game_verdicts import judged
from pipeline.types import Interface, Repository, TaskInstance, Trajectory, VerificationResult, Verifier
from training.environments.game import SPLITS, GameFacts, GameTask, Opening, Split
from training.environments.game_environment import GameEnvironment
from training.environments.pool import GamePool
from training.environments.registry import facts_of
from training.environments.task_lists import tasks_of


class Suite(Environments, Protocol):
    """Tasks in splits, each with its gold path as solution, one way to act in them, and the verdict."""

    def instances(self, splits: Sequence[Split] = SPLITS) -> Iterable[tuple[TaskInstance, Split]]:
        """The tasks in these splits, in an order that does not change."""

    def judged(self, instance: TaskInstance, trajectory: Trajectory) -> VerificationResult:
        """The verdict on an attempt. Raises SandboxUnavailable where nothing may be concluded."""


SOURCE = "environment"
"""Name of the source whose repositories are the packages of games."""
GAME = "game"
"""Domain of all tasks in games."""


class GameSuite:
    """One game with its processes."""

    def __init__(self, name: str, size: int, material: Path | None = None) -> None:
        """`size` processes at most; `material` is what some games can be made of. Raises ConfigurationError."""
        self.facts = facts_of(name)
        self._pool = GamePool(self.facts, size, material)

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def package_version(self) -> str:
        """Of the distribution that the game stands on. Raises ConfigurationError where it is not installed."""
        return package_version(self.facts)

    def repository(self) -> Repository:
        """The package as a repository: what its tasks come from."""
        return Repository(
            source=SOURCE,
            full_name=f"{SOURCE}/{self.name}",
            commit=self.package_version,
            language="java" if self.facts.needs_java else "python",
            locator=self.facts.package,
        )

    def instance(self, task: GameTask) -> tuple[TaskInstance, bool]:
        """The task with its gold path, and whether that path solves it from a start that is not solved already.

        Raises UnknownTask, ConfigurationError and SandboxUnavailable.
        """
        with self._pool.lent() as process:
            process.start(task.task_type, task.variation)
            gold = process.gold()
            opening = process.start(task.task_type, task.variation)
            score = 0.0
            for action in gold:
                played = process.act(action)
                score = played.score
                if played.done:
                    break
        return self.told(task, opening, gold), score >= 1.0

    def told(self, task: GameTask, opening: Opening, gold: tuple[str, ...]) -> TaskInstance:
        """The task as an instance, when its beginning and its gold path are known. Raises ConfigurationError."""
        facts = self.facts
        told = {"depth": str(task.depth)} if task.depth is not None else {}
        return TaskInstance(
            repository_id=self.repository().repository_id,
            image_digest=None,
            instruction=opening.task,
            solution=gold,
            verifier=Verifier(kind="environment", files=(), command=""),
            generator=facts.name,
            domain=GAME,
            language="text",
            family=task.task_type,
            seed=zlib.crc32(task.variation.encode()),
            difficulty=task.difficulty,
            provenance={
                "environment": facts.name,
                "package": facts.package,
                "version": self.package_version,
                "task_type": task.task_type,
                "variation": task.variation,
                "split": task.split,
                "gold_steps": str(len(gold)),
                **told,
            },
        )

    def instances(self, splits: Sequence[Split] = SPLITS) -> Iterator[tuple[TaskInstance, Split]]:
        """See Suite: those of the splits file; one whose gold path does not solve it is left out."""
        for task in tasks_of(self.name, splits):
            instance, solved = self.instance(task)
            if solved:
                yield instance, task.split

    def judged(self, instance: TaskInstance, trajectory: Trajectory) -> VerificationResult:
        """See Suite: the score that the game gave last."""
        del instance
        return judged(trajectory)

    @contextmanager
    def opened(self, instance: TaskInstance, interface: Interface) -> Iterator[GameEnvironment]:
        """See Environments."""
        if interface != "shell":
            raise ConfigurationError(f"{self.name} takes whole actions, no keys: an agent of terminals cannot play it")
        with self._pool.lent() as process:
            yield GameEnvironment(instance, process)

    def close(self) -> None:
        """End the processes; safe to call twice."""
        self._pool.close()


def package_version(facts: GameFacts) -> str:
    """Raises ConfigurationError where the package is not installed."""
    try:
        return version(facts.package)
    except PackageNotFoundError as error:
        raise ConfigurationError(
            f"{facts.name} needs the Python package {facts.package!r}: install the extra `envs` "
            "(infra/bootstrap.sh envs)"
        ) from error
