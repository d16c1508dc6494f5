"""Keeps some of what a scorer rejects, chosen at random, so that a model learns from more than its own taste.

Every row says how likely it was that its repository is kept (its propensity), whatever became of it: rows of builds
weigh 1 / propensity in training. The choice is a hash of the repository's id and a seed, so that a rerun
makes the same.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import Field

from pipeline.scoring.protocol import ScoreConfig, Scorer
from pipeline.types import Checkout, Repository, Score


class ExplorationConfig(ScoreConfig):
    """What is kept, of the good ones and of the others."""

    exploration: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of the repositories under the threshold that are kept all the same, at random; 0 for none."""
    exploration_seed: int = Field(default=0, ge=0)
    """Another one chooses others."""


class ExploringScorer:
    """Another scorer, with its decision turned for some. The name says with which numbers: others decide anew."""

    def __init__(self, scorer: Scorer, config: ExplorationConfig) -> None:
        self._scorer = scorer
        self._config = config

    @property
    def name(self) -> str:
        """`static@2:0.2:0.1`: the scorer, the threshold, the share of the others; the seed where it is not 0."""
        config = self._config
        parts = [self._scorer.name, f"{config.threshold:g}", f"{config.exploration:g}"]
        return ":".join(parts if config.exploration_seed == 0 else [*parts, str(config.exploration_seed)])

    def score(self, repository: Repository, checkout: Checkout, tree: Path) -> Score:
        """As in `Scorer`."""
        found = self._scorer.score(repository, checkout, tree)
        explored = not found.kept and self._draw(repository.repository_id) < self._config.exploration
        return found.model_copy(
            update={
                "scorer": self.name,
                "kept": found.kept or explored,
                "explored": explored,
                "propensity": 1.0 if found.kept else self._config.exploration,
            }
        )

    def _draw(self, repository_id: str) -> float:
        """Evenly spread over [0, 1), always the same for a repository and a seed."""
        digest = hashlib.sha256(f"{self._config.exploration_seed}/{repository_id}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2.0**64
