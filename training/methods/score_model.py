"""The ScoreModel of TerminalTraj (section on image curation): which repositories are worth a build.

The paper scores each file for completeness and executability, aggregates to the repository and drops what lies under a
threshold; neither its model nor its labels are published. Here, with a few hundred labels of our own builds
(pipeline/scoring/labels.py), it is a logistic regression on standardised features of the repository, the quality of its
files among them:

    p(x) = sigmoid(a * (w . z(x) + b) + c),   z the standardised features, cut at +-LARGEST_Z

    w, b = argmin  sum_i v_i * log(1 + exp(-y_i (w . z_i + b))) + |w|^2 / (2 C)      (y in {-1, 1}, v = 1 / propensity)
    a, c = argmin  the same loss of the log odds that each row has from a fit without its owner's rows  (Platt)

C is the one of `penalties` with the smallest loss in cross-validation whose folds never divide an owner.

Differences from the paper: it is calibrated to builds, it is explained feature by feature, a share of what it would
drop is built all the same, and infrastructure faults are never labels.

Reads: `Labelled` rows. Writes: one artifact of pipeline/scoring/learned.py. scikit-learn is used in training alone.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from pipeline.errors import PipelineError
from pipeline.scoring.features import VERSION
from pipeline.scoring.labels import Labelled
from pipeline.scoring.learned import LARGEST_Z, ScoreModel, held_out
from pipeline.types import Record

logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]

_SLOPE_PENALTY = 1.0
"""C of the calibration: with few rows it stays near to what cross-validation gave."""
_LEAST_SCALE = 1e-6


class TooFewLabels(PipelineError):
    """There is nothing to learn from yet. The text says how many labels there are, and the remedy."""


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
    """(to train on, held out): owners in the order of their newest row, those of one time by a hash of their name.

    The newest owners are held out, with all their rows, until they are `heldout` of all rows.
    """
    newest: dict[str, str] = {}
    for row in rows:
        newest[row.owner] = max(row.time, newest.get(row.owner, ""))
    order = sorted(newest, key=lambda owner: (newest[owner], _hash(owner, config.seed)), reverse=True)
    counts = {owner: sum(row.owner == owner for row in rows) for owner in order}
    wanted, aside = round(len(rows) * config.heldout), set[str]()
    for owner in order:
        if sum(counts[one] for one in aside) >= wanted:
            break
        aside.add(owner)
    return [row for row in rows if row.owner not in aside], [row for row in rows if row.owner in aside]


def fit(rows: Sequence[Labelled], config: ScoreModelConfig) -> ScoreModel:
    """A model of these rows, without any held-out ones. Raises TooFewLabels, for too few of one class too."""
    _require_enough(rows, config)
    names = sorted(set().union(*(row.features for row in rows)))
    values = np.array([[row.features.get(name, np.nan) for name in names] for row in rows])
    labels = np.array([row.label for row in rows])
    weights = np.array([min(1.0 / row.propensity, config.max_weight) for row in rows])
    folds = _folds(rows, config)
    penalty, odds = _chosen(values, labels, weights, folds, config)
    slope, offset = _calibration(odds, labels, weights)
    fitted = _Fit.of(values, labels, weights, penalty)
    return ScoreModel(
        features_version=VERSION,
        features=tuple(names),
        means=_rounded(fitted.means),
        scales=_rounded(fitted.scales),
        weights=_rounded(fitted.weights),
        bias=round(fitted.bias, 9),
        slope=round(slope, 9),
        offset=round(offset, 9),
        training={
            "labels": float(len(rows)),
            "successes": float(labels.sum()),
            "owners": float(len({row.owner for row in rows})),
            "penalty": penalty,
            "loss": round(_loss(odds, labels, weights), 6),
        },
    )


def train(config: ScoreModelConfig, rows: Sequence[Labelled], folder: Path) -> Path:
    """Fit on one half, judge the other, fit on all, write the artifact with both. Raises TooFewLabels as `fit`."""
    ordered = sorted(rows, key=lambda row: row.repository_id)
    _require_enough(ordered, config)
    known, unknown = split(ordered, config)
    halved = config.model_copy(update={"min_labels": 1, "min_of_a_class": config.folds})
    evaluated = fit(known, halved)
    heldout = tuple(held_out(row, round(evaluated.probability(row.features), 6)) for row in unknown)
    model = fit(ordered, config).model_copy(update={"heldout": heldout})
    return model.write(folder)


class _Fit:
    """Standardisation and weights of one fit."""

    def __init__(self, means: Floats, scales: Floats, weights: Floats, bias: float) -> None:
        self.means, self.scales, self.weights, self.bias = means, scales, weights, bias

    @classmethod
    def of(cls, values: Floats, labels: NDArray[np.bool_], weights: Floats, penalty: float) -> _Fit:
        """A missing value counts as the mean of the others."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value
            means = np.nan_to_num(np.nanmean(values, axis=0))
            deviations = np.nan_to_num(np.nanstd(values, axis=0))
        scales = np.where(deviations > _LEAST_SCALE, deviations, 1.0)
        model = LogisticRegression(C=penalty, solver="newton-cholesky", max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model.fit(_standardised(values, means, scales), labels, sample_weight=weights)
        return cls(means, scales, model.coef_[0], float(model.intercept_[0]))

    def odds(self, values: Floats) -> Floats:
        return _standardised(values, self.means, self.scales) @ self.weights + self.bias


def _standardised(values: Floats, means: Floats, scales: Floats) -> Floats:
    filled = np.where(np.isnan(values), means, values)
    clipped: Floats = np.clip((filled - means) / scales, -LARGEST_Z, LARGEST_Z)
    return clipped


def _require_enough(rows: Sequence[Labelled], config: ScoreModelConfig) -> None:
    successes = sum(row.label for row in rows)
    remedy = 'build more repositories first (`touchstone run`), with model = "static" in [scoring] until then'
    if len(rows) < config.min_labels:
        raise TooFewLabels(f"{len(rows)} labelled builds, and a score model wants {config.min_labels}; {remedy}")
    if min(successes, len(rows) - successes) < config.min_of_a_class:
        found = f"{successes} successes and {len(rows) - successes} failures"
        raise TooFewLabels(
            f"{found} at the first attempt, a score model wants {config.min_of_a_class} of each; {remedy}"
        )
    if len({row.owner for row in rows}) < config.folds:
        raise TooFewLabels(f"the labelled builds are of fewer than {config.folds} owners; {remedy}")


def _folds(rows: Sequence[Labelled], config: ScoreModelConfig) -> NDArray[np.int64]:
    """The fold of each row: owners dealt out so that successes and failures are in every fold."""
    held: list[list[int]] = [[0, 0] for _ in range(config.folds)]
    of_owner: dict[str, int] = {}
    owners: dict[str, list[bool]] = {}
    for row in rows:
        owners.setdefault(row.owner, []).append(row.label)
    for owner in sorted(owners, key=lambda one: (-len(owners[one]), _hash(one, config.seed))):
        labels = owners[owner]
        rarer = int(sum(labels) * 2 >= len(labels))
        fold = min(range(config.folds), key=lambda number: (held[number][rarer], sum(held[number]), number))
        of_owner[owner] = fold
        for label in labels:
            held[fold][int(label)] += 1
    return np.array([of_owner[row.owner] for row in rows])


def _chosen(
    values: Floats, labels: NDArray[np.bool_], weights: Floats, folds: NDArray[np.int64], config: ScoreModelConfig
) -> tuple[float, Floats]:
    """The penalty with the smallest loss out of its folds, and the log odds that it gave there."""
    best: tuple[float, float, Floats] | None = None
    for penalty in config.penalties:
        odds = np.zeros(len(labels))
        for fold in range(config.folds):
            inside = folds != fold
            if inside.all() or len(set(labels[inside].tolist())) < 2:
                continue
            odds[~inside] = _Fit.of(values[inside], labels[inside], weights[inside], penalty).odds(values[~inside])
        loss = _loss(odds, labels, weights)
        if best is None or loss < best[0]:
            best = (loss, penalty, odds)
    assert best is not None  # a configuration has at least one penalty
    logger.info("score model: C = %g with a loss of %.4f out of its folds", best[1], best[0])
    return best[1], best[2]


def _loss(odds: Floats, labels: NDArray[np.bool_], weights: Floats) -> float:
    signs = np.where(labels, 1.0, -1.0)
    return float(np.average(np.logaddexp(0.0, -signs * odds), weights=weights))


def _calibration(odds: Floats, labels: NDArray[np.bool_], weights: Floats) -> tuple[float, float]:
    """Slope and offset; a slope that is not above 0 would turn the order around, and the order is the model's."""
    spread = float(odds.std()) or 1.0
    model = LogisticRegression(C=_SLOPE_PENALTY, solver="newton-cholesky", max_iter=200).fit(
        (odds / spread)[:, None], labels, sample_weight=weights
    )
    slope = float(model.coef_[0][0]) / spread
    return max(slope, 0.05), float(model.intercept_[0])


def _rounded(values: Floats) -> tuple[float, ...]:
    """Nine digits, more than any fit is worth."""
    return tuple(float(f"{value:.9g}") for value in values)


def _hash(owner: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{owner}".encode()).hexdigest()
