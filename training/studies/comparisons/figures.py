"""What one arm did with one seed in one environment."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from pipeline.types import Record

Group = Literal["train", "seen", "unseen"]
"""Tasks that were learned from, others that are like them, and others that are unlike them."""
GROUPS: tuple[Group, ...] = ("train", "seen", "unseen")
"""The farther from what was learned, the later."""


class GroupFigures(Record):
    """How often each task of a group was solved."""

    tasks: int
    passed: tuple[float, ...]
    """Of each task: attempts that passed / attempts, 0 to 1."""
    names: tuple[str, ...]
    """Of the tasks, in the order of the plan."""

    @model_validator(mode="after")
    def _one_share_each(self) -> Self:
        if not len(self.passed) == len(self.names) == self.tasks:
            raise ValueError(f"{len(self.passed)} shares and {len(self.names)} names of {self.tasks} tasks")
        if not all(0.0 <= share <= 1.0 for share in self.passed):
            raise ValueError("a share that is not between 0 and 1")
        return self


class Spent(Record):
    """What was spent until the arm was ready to be judged; what judging costs is not in it."""

    learned_tokens: int = Field(ge=0)
    read_tokens: int = Field(ge=0)
    """Read without learning from them: prompts while acting, and what references and values are asked about."""
    written_tokens: int = Field(ge=0)
    environment_steps: int = Field(ge=0)
    episodes: int = Field(ge=0)
    cpu_s: float = Field(ge=0.0)
    budget: float = Field(ge=0.0)
    """Token units that were spent: see training/loop.py."""


class ArmFigures(Record):
    """What a cell comes to."""

    groups: dict[Group, GroupFigures]
    """Of those in the plan, at least the one that is farthest from what was learned."""
    later: dict[Group, tuple[float, ...]] = Field(default_factory=dict)
    """Of the same tasks when tries after a first failure count too: shown apart, for they know the verdict."""
    spent: Spent
