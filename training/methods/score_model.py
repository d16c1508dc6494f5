"""The ScoreModel of TerminalTraj (section on image curation): which repositories are worth a build.

The paper scores each file for completeness and executability, aggregates to the repository and drops what lies under a
threshold; neither its model nor its labels are published. Here, with a few hundred labels of our own builds
(pipeline/scoring/labels.py), it is a logistic regression on standardised features of the repository, the quality of its
files among them:

    p(x) = sigmoid(a * (w . z(x) + b) + c),   z the standardised features, cut at +-LARGEST_Z

    w, b = argmin  sum_i v_i * log(1 + exp(-y_i (w . z_i + b))) + |w|^2 / (2 C)      (y in {-1, 1}, v = 1 / propensity)
    a, c = argmin  the same loss of the log odds that each row has from a fit without its owner's rows  (Platt)

C is the one of `penalties` with the smallest loss in cross-validation whose folds never divide an owner.

Differences from the paper: it is calibrated to builds, it is explained feature by feature, 10 % of what it would drop
is built all the same, and infrastructure faults are never labels.

Reads: `Labelled` rows. Writes: one artifact of pipeline/scoring/learned.py. scikit-learn is used here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from pipeline.scoring.labels import Labelled
from pipeline.scoring.learned import ScoreModel
from pipeline.types import Record


class ScoreModelConfig(Record):
    """How a score model is fitted."""

    penalties: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    """Values of C that are tried; smaller is more cautious."""
    folds: int = Field(default=5, ge=2)
    """Parts of the cross-validation; no owner is in two of them."""
    heldout: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Share of the rows that the evaluated model does not see."""
    min_labels: int = Field(default=40, gt=0)
    """With fewer labels nothing is trained."""
    min_of_a_class: int = Field(default=8, gt=0)
    """With fewer successes, or fewer failures, nothing is trained."""
    max_weight: float = Field(default=10.0, ge=1.0)
    """Most that one row counts for its low propensity."""
    seed: int = 0


def split(rows: Sequence[Labelled], config: ScoreModelConfig) -> tuple[list[Labelled], list[Labelled]]:
    """(to train on, held out): owners in the order of their newest row, those of one time by a hash of their name."""
    raise NotImplementedError


def fit(rows: Sequence[Labelled], config: ScoreModelConfig) -> ScoreModel:
    """A model of these rows, without any held-out ones. Raises PipelineError for too few of them or of one class."""
    raise NotImplementedError


def train(config: ScoreModelConfig, rows: Sequence[Labelled], folder: Path) -> Path:
    """Fit on one half, judge the other, fit on all, write the artifact with both. Raises PipelineError as `fit`."""
    raise NotImplementedError
