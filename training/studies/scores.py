"""Does it help to take rows of repositories that the score model thinks well of?

As many rows of repositories above the threshold, and of repositories at random, from the same version. Repositories
under the threshold have rows only where some were kept all the same ([scoring] exploration): without these the
experiment has nothing to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field, JsonValue

from pipeline.errors import ConfigurationError
from pipeline.schemas import to_rows
from training.studies.figures import ArmResult, points
from training.studies.material import Material, first, in_turn
from training.studies.study import Arm, Lesson, Study, StudyConfig

SCORED, RANDOM = "scored", "random"


class ScoresConfig(StudyConfig):
    """Sizes."""

    rows: int = Field(default=16, gt=0)
    """Of each arm."""
    threshold: float = Field(default=0.2, ge=0.0, le=1.0)
    """Lowest score of the repositories of the arm `scored`."""
    scorer: str | None = None
    """Name in the column `scorer`; None for the newest score of each repository, whoever gave it."""


class Scores(Study):
    """See above."""

    name: ClassVar[str] = "scores"
    about: ClassVar[str] = (
        "rows of repositories above the threshold of the score model against rows of any repositories"
    )
    compared_to: ClassVar[str] = RANDOM

    def __init__(self, config: ScoresConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Scores:
        return cls(ScoresConfig.model_validate(told))

    @property
    def config(self) -> ScoresConfig:
        return self._config

    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        config, version = self._config, material.version(self._config.snapshot)
        scores = _scores(material, config.scorer)
        rows = [row for row in material.rows(version) if row.repository_id in scores]
        good = [row for row in rows if scores[row.repository_id] >= config.threshold]
        if len(good) == len(rows):
            raise ConfigurationError(
                f"scores.threshold: all {len(rows)} rows with a score are of repositories above {config.threshold:g}; "
                "[scoring] exploration keeps some of the others"
            )
        orders = {RANDOM: rows, SCORED: good}
        lessons = {
            name: first(in_turn(chosen, seed, lambda row: row.repository_id), config.rows, f"scores.rows of {name}")
            for name, chosen in orders.items()
        }
        return [Arm("base", None), *(Arm(name, Lesson(version, chosen)) for name, chosen in lessons.items())]

    @classmethod
    def findings(cls, environments: Mapping[str, Mapping[str, ArmResult]]) -> dict[str, JsonValue]:
        """By how many points the scored rows are better."""
        found: dict[str, JsonValue] = {}
        for environment, arms in environments.items():
            scored, others = points(arms.get(SCORED)), points(arms.get(RANDOM))
            if scored is not None and others is not None:
                found[f"{environment}: scored - random, points"] = round(scored - others, 1)
        return found


def _scores(material: Material, scorer: str | None) -> dict[str, float]:
    rows = to_rows(material.store.current("scores", ["repository_id", "scorer", "score"]))
    return {
        str(row["repository_id"]): float(str(row["score"]))
        for row in rows
        if row["score"] is not None and scorer in (None, row["scorer"])
    }
