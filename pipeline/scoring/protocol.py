"""What every scorer promises, and what is kept of what it scored. How repositories are judged is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from pipeline.types import Checkout, Repository, Score


class ScoreConfig(BaseModel):
    """What is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.2, ge=0.0, le=1.0)
    """Repositories with a lower score go no further."""

    def scored(
        self,
        repository: Repository,
        scorer: str,
        score: float,
        features: dict[str, float],
        explanation: dict[str, float] | None = None,
    ) -> Score:
        """What is kept of a score in [0, 1]; `scorer` is the name of who gave it."""
        return Score(
            repository_id=repository.repository_id,
            scorer=scorer,
            score=round(score, 4),
            kept=score >= self.threshold,
            features=features,
            explanation=explanation or {},
        )


class Scorer(Protocol):
    """Judges one repository. Implementations must give the same score for the same tree."""

    @property
    def name(self) -> str:
        """`name@version`, stored on rows; a change of the result changes the version."""

    def score(self, repository: Repository, checkout: Checkout, tree: Path) -> Score:
        """`tree` is the tar that the checkout names. Raises OSError when it is not there."""
