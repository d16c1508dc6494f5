"""Does a little fine-tuning on verified rows of easy tasks help at families of tasks that it never saw?

Arms: the weights as they are, and after 1x and 4x as many rows, the smaller set within the larger one. Four families of
the tasks about files are held out by a rule that knows no result: those with the smallest SHA-256 of "held-out " and
their name. For 125 and 500 rows and 26 instances a CPU takes some hours, a GPU minutes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from pipeline.generators.file_tasks import FAMILIES
from pipeline.types import Difficulty
from training.studies.material import Material, first, in_turn
from training.studies.study import Arm, Lesson, Study, StudyConfig

HELD_OUT = 4


class SmallSftConfig(StudyConfig):
    """Sizes; the experiment is with 125 rows and 26 instances."""

    rows: int = Field(default=16, gt=0)
    """Of the arm 1x."""
    times: int = Field(default=4, gt=1)
    """So many times the rows has the larger arm."""
    difficulty: Difficulty = "easy"
    """Of the tasks that are learned from."""


class SmallSft(Study):
    """See above."""

    name: ClassVar[str] = "small_sft"
    about: ClassVar[str] = "a small model before and after fine-tuning on 1x and 4x easy rows, on held-out families"

    def __init__(self, config: SmallSftConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, told: Mapping[str, object]) -> SmallSft:
        return cls(SmallSftConfig.model_validate(told))

    @property
    def config(self) -> SmallSftConfig:
        return self._config

    def held_out(self) -> frozenset[str]:
        return held_out_families()

    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        config, version = self._config, material.version(self._config.snapshot)
        fit = [
            row
            for row in material.rows(version)
            if row.difficulty == config.difficulty and row.family not in self.held_out()
        ]
        order = in_turn(fit, seed, lambda row: row.family)
        many = first(order, config.rows * config.times, "small_sft.rows times small_sft.times")
        return [
            Arm("base", None),
            Arm("1x", Lesson(version, many[: config.rows])),
            Arm(f"{config.times}x", Lesson(version, many)),
        ]


def held_out_families() -> frozenset[str]:
    """Of the tasks about files."""
    order = sorted(FAMILIES, key=lambda family: hashlib.sha256(f"held-out {family}".encode()).hexdigest())
    return frozenset(order[:HELD_OUT])
