"""One attempt at one task of a game, as the rollout loop acts on it."""

from __future__ import annotations

import time

from pipeline.environment import StepOutcome
from pipeline.types import TaskInstance
from sandbox.types import FileChange
from training.environments.pool import GameProcess


class GameEnvironment:
    """A task of a game in a process that was lent for it; see pipeline.environment.Environment.

    What a step was worth stands in its `extra`: `reward` (the change of the score), `score` (so far; 1 is full) and
    `rejected` (the game did not know the action). No state is kept: the verdict is the last score.
    """

    def __init__(self, instance: TaskInstance, process: GameProcess) -> None:
        self._instance = instance
        self._process = process
        self._score = 0.0

    def reset(self) -> str:
        """The first observation. Raises SandboxUnavailable, and UnknownTask for a task the game does not have."""
        told = self._instance.provenance
        self._score = 0.0
        return self._process.start(told["task_type"], told["variation"]).observation

    def step(self, command: str) -> StepOutcome:
        """One action, whatever its text. Raises SandboxUnavailable."""
        begun = time.monotonic()
        played = self._process.act(command)
        reward, self._score = played.score - self._score, played.score
        return StepOutcome(
            observation=played.observation,
            exit_code=None,
            seconds=time.monotonic() - begun,
            done=played.done,
            extra={"reward": round(reward, 6), "score": played.score, "rejected": played.rejected},
        )

    def admissible(self) -> tuple[str, ...] | None:
        """Actions that the game would take now; None where it cannot say. Raises SandboxUnavailable."""
        return self._process.admissible()

    def changes(self) -> tuple[FileChange, ...]:
        """There are no files."""
        return ()

    def outcome(self, reference: str) -> str:
        """No state is kept."""
        del reference
        return ""

    def close(self) -> None:
        """The process goes back to whoever lent it."""
