"""The scores of one task by one rater."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from pipeline.types import Record

Dimension = Literal["task_soundness", "evaluability", "information_sufficiency", "behavioural_constrainedness"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
LOWEST, HIGHEST = 1, 5

RaterKind = Literal["rules", "model", "people"]


class Scores(Record):
    """Each from 1 (poor) to 5 (good)."""

    task_soundness: int = Field(ge=LOWEST, le=HIGHEST)
    """The task makes sense, can be done, and is something that somebody would ask for."""
    evaluability: int = Field(ge=LOWEST, le=HIGHEST)
    """The final state decides, by code, whether it was done: no other state passes, no right one fails."""
    information_sufficiency: int = Field(ge=LOWEST, le=HIGHEST)
    """Instruction and image together say all that is judged."""
    behavioural_constrainedness: int = Field(ge=LOWEST, le=HIGHEST)
    """The result is pinned down, the way to it is free."""


class Rating(Record):
    """What one rater says of one instance."""

    instance_id: str
    rater: str
    """Who: `rules@1`, a model's name, or the name that a person goes by."""
    kind: RaterKind
    scores: Scores
    remark: str = ""
    provenance: dict[str, str] = Field(default_factory=dict)
    """For a model the hash of its prompt, for people the sheet."""
