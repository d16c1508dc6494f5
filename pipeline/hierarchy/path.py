"""The shapes: a path through an environment, and its annotation with sub-goals and progress."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from pipeline.types import Record

NOTHING = "None"
"""The progress of a sub-goal before its first action."""


class PathStep(Record):
    """One action on the path."""

    observation: str
    """What was seen before it."""
    action: str
    result: str
    """What was seen after it."""
    reward: float = 0.0
    """What the environment gave for it: the change of the score."""
    score: float = 0.0
    """After it, 1 is full."""
    rejected: bool = False
    """The environment did not know it."""
    done: bool = False
    """The environment was over after it."""


class Path(Record):
    """What an agent did at one task."""

    environment: str
    """Name of the game, or `terminal`."""
    task: str
    steps: tuple[PathStep, ...]


class SubTask(Record):
    """A sub-goal and how many actions of the path, one after the other, belong to it."""

    name: str = Field(min_length=1)
    n_actions: int = Field(gt=0)


class Annotation(Record):
    """A path divided into sub-tasks."""

    annotator: str
    """`name@version` of the rules, or the model and the hash of its prompt."""
    subtasks: tuple[SubTask, ...]
    progress: tuple[str, ...]
    """For each action, what was done for its sub-task after it. Before the first action of a sub-task it is NOTHING."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        actions = sum(one.n_actions for one in self.subtasks)
        if actions != len(self.progress):
            raise ValueError(f"the sub-tasks have {actions} actions, progress is told of {len(self.progress)}")
        return self
