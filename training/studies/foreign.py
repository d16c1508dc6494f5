"""Are our rows better to learn from than trajectories that others made?

Once as many rows of both, once as many tokens: of the side that has more, rows are taken in their order as long as they
fit, so that what is left of the other's tokens is less than any row that was not taken. What is compared is the gain
over the untrained model. Formats of theirs: training/foreign.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field, JsonValue

from training.foreign import read_foreign
from training.learned_rows import FOLDER, keep_rows
from training.studies.figures import ArmResult, points
from training.studies.material import Material, StudyRow, first, in_turn
from training.studies.study import Arm, Lesson, Study, StudyConfig

ROWS, TOKENS = "rows", "tokens"


class ForeignConfig(StudyConfig):
    """Sizes."""

    theirs: Path
    """File or folder of their trajectories, relative to the file of settings."""
    rows: int = Field(default=16, gt=0)
    """Of both, where rows are equal; where tokens are, as many as the side with fewer tokens has in so many rows."""


class Foreign(Study):
    """See above."""

    name: ClassVar[str] = "foreign"
    about: ClassVar[str] = "our rows against an imported set of trajectories, at equal rows and at equal tokens"
    paths: ClassVar[tuple[tuple[str, ...], ...]] = (*Study.paths, ("theirs",))

    def __init__(self, config: ForeignConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Foreign:
        return cls(ForeignConfig.model_validate(told))

    @property
    def config(self) -> ForeignConfig:
        return self._config

    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        config = self._config
        kept = keep_rows(material.data, "foreign", read_foreign(config.theirs), material.code_commit)
        versions = {
            "ours": material.version(config.snapshot),
            "theirs": material.version(kept, material.data / FOLDER),
        }
        orders = {
            side: in_turn(material.rows(version), seed, lambda row: row.family) for side, version in versions.items()
        }
        by_rows = {side: first(order, config.rows, f"foreign.rows of {side}") for side, order in orders.items()}
        budget = min(sum(row.n_tokens for row in chosen) for chosen in by_rows.values())
        by_tokens = {side: within(chosen, budget) for side, chosen in orders.items()}
        return [
            Arm("base", None),
            *(Arm(f"{side}-{ROWS}", Lesson(versions[side], chosen)) for side, chosen in by_rows.items()),
            *(Arm(f"{side}-{TOKENS}", Lesson(versions[side], chosen)) for side, chosen in by_tokens.items()),
        ]

    @classmethod
    def findings(cls, environments: Mapping[str, Mapping[str, ArmResult]]) -> dict[str, JsonValue]:
        """Gains over the untrained model in points, and how many times theirs ours is; None where theirs is none."""
        found: dict[str, JsonValue] = {}
        for environment, arms in environments.items():
            for equal in (ROWS, TOKENS):
                before, ours, theirs = (points(arms.get(name)) for name in ("base", f"ours-{equal}", f"theirs-{equal}"))
                if before is not None and ours is not None and theirs is not None:
                    gains = round(ours - before, 1), round(theirs - before, 1)
                    ratio = round(gains[0] / gains[1], 2) if gains[1] > 0 else None
                    told: dict[str, JsonValue] = {"ours": gains[0], "theirs": gains[1], "ours / theirs": ratio}
                    found[f"{environment}: gain at equal {equal}, points"] = told
        return found


def within(order: Sequence[StudyRow], budget: int) -> tuple[StudyRow, ...]:
    """Rows in their order that together have at most so many tokens; one that does not fit is passed over."""
    chosen: list[StudyRow] = []
    left = budget
    for row in order:
        if row.n_tokens <= left:
            chosen.append(row)
            left -= row.n_tokens
    return tuple(chosen)
