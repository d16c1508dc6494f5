"""A score that was learned from builds: standardised features, a logistic score, a calibrated probability.

`ScoreModel` is the artifact: one JSON file, written by training/methods/score_model.py and read here with json and
numpy alone. A file that was damaged, or that belongs to other features than this code computes, is refused. Fitting is
not here, and what the features are is in features.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from pipeline.disk import sync
from pipeline.errors import ConfigurationError
from pipeline.schemas import canonical_json
from pipeline.scoring.features import VERSION, features_of, metadata_features
from pipeline.scoring.labels import Labelled
from pipeline.scoring.protocol import ScoreConfig
from pipeline.types import TASKS, Checkout, Record, Repository, Score

FOLDER = "score_models"
"""Where models lie in the data folder, the newest with the highest number."""
LARGEST_Z = 4.0
"""Standardised features are cut here: no single one decides alone, however odd a repository is."""
_SHOWN = 10
_NAME = re.compile(r"(\d{4,})-[0-9a-f]{12}\.json")
_REMEDY = 'materialize the asset score_model again, or set model = "static" in [scoring]'


class HeldOut(Record):
    """A labelled repository that the evaluated model had never seen, and what that model said of it."""

    repository_id: str
    owner: str
    """Hash of the owner: rows of one owner are no independent evidence."""
    label: bool
    probability: float = Field(ge=0.0, le=1.0)
    language: str
    domain: str
    has_dockerfile: bool
    n_bytes: float
    time: str
    stars: float | None = None


class ScoreModel(Record):
    """The artifact. `features`, `means`, `scales` and `weights` belong together by their order."""

    format: Literal["touchstone.score_model@1"] = "touchstone.score_model@1"
    features_version: str
    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    """Change of the log odds for one standard deviation of the feature."""
    bias: float
    slope: float
    offset: float
    """Calibration: the probability is sigmoid(slope * log odds + offset)."""
    training: dict[str, float] = Field(default_factory=dict)
    """How many labels there were, and what was chosen."""
    heldout: tuple[HeldOut, ...] = ()
    """Of a model of the same recipe that was fitted to the other half alone; this one was fitted to all."""

    @model_validator(mode="after")
    def _coherent(self) -> ScoreModel:
        vectors = (self.means, self.scales, self.weights)
        if {len(vector) for vector in vectors} != {len(self.features)}:
            raise ValueError("features, means, scales and weights differ in length")
        numbers = (*self.means, *self.scales, *self.weights, self.bias, self.slope, self.offset)
        if not np.isfinite(numbers).all() or min(self.scales, default=1.0) <= 0.0:
            raise ValueError("a number is not finite, or a scale is not above 0")
        return self

    @cached_property
    def name(self) -> str:
        """`learned@` with the beginning of the artifact's hash: another model has another name, and other rows."""
        return f"learned@{self.sha256[:12]}"

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(canonical_json(self.model_dump()).encode()).hexdigest()

    def probability(self, features: Mapping[str, float]) -> float:
        """Of a usable image at the first attempt. A feature that is missing counts as average."""
        odds = self.bias + float(self._moves(features).sum())
        return float(1.0 / (1.0 + np.exp(-np.clip(self.slope * odds + self.offset, -50.0, 50.0))))

    def explanation(self, features: Mapping[str, float]) -> dict[str, float]:
        """The features that moved the log odds most from those of an average repository, and how far."""
        moves = self.slope * self._moves(features)
        order = np.argsort(-np.abs(moves), kind="stable")[:_SHOWN]
        return {self.features[i]: round(float(moves[i]), 4) for i in order if abs(moves[i]) > 0.0}

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        return np.array(self.means), np.array(self.scales), np.array(self.weights)

    def _moves(self, features: Mapping[str, float]) -> NDArray[np.float64]:
        means, scales, weights = self._arrays
        values = np.array([features.get(name, mean) for name, mean in zip(self.features, self.means, strict=True)])
        return np.clip((values - means) / scales, -LARGEST_Z, LARGEST_Z) * weights

    def write(self, folder: Path) -> Path:
        """A file of its own below `folder`; the newest one as it is when that holds the same model already."""
        folder.mkdir(parents=True, exist_ok=True)
        known = _stored(folder)
        tail = f"-{self.sha256[:12]}.json"
        if known and known[-1].name.endswith(tail):
            return known[-1]
        number = int(known[-1].name.partition("-")[0]) + 1 if known else 1
        path = folder / f"{number:04d}{tail}"
        part = path.with_suffix(".part")
        part.write_text(canonical_json({"sha256": self.sha256, "model": self.model_dump()}), encoding="utf-8")
        sync(part)
        part.rename(path)
        sync(folder)
        return path

    @classmethod
    def read(cls, path: Path) -> ScoreModel:
        """Raises ConfigurationError, with the remedy, for a file that is no such model or not for these features."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            model = cls.model_validate(content["model"])
        except OSError as error:
            raise ConfigurationError(f"the score model {path} cannot be read ({error.strerror}); {_REMEDY}") from error
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"])) or "model"
            raise ConfigurationError(f"{path} is no score model ({place}: {fault['msg']}); {_REMEDY}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} is no score model, or was cut or changed; {_REMEDY}") from error
        if content.get("sha256") != model.sha256:
            raise ConfigurationError(f"the score model {path} was changed after it was written; {_REMEDY}")
        if model.features_version != VERSION:
            raise ConfigurationError(
                f"the score model {path} was trained on {model.features_version}, and this version of the program "
                f"computes {VERSION}; {_REMEDY}"
            )
        return model


def newest(folder: Path) -> Path | None:
    """The model that was trained last; None when there is none."""
    known = _stored(folder)
    return known[-1] if known else None


def _stored(folder: Path) -> list[Path]:
    found = folder.glob("*.json") if folder.is_dir() else ()
    return sorted((path for path in found if _NAME.fullmatch(path.name)), key=lambda path: int(path.name.split("-")[0]))


def foretold(model: ScoreModel, known: Iterable[tuple[Repository, Checkout]]) -> Iterator[tuple[str, float]]:
    """(repository id, probability) by metadata alone, one after the other: what a tree would add counts as average."""
    for repository, checkout in known:
        yield repository.repository_id, model.probability(metadata_features(repository, checkout))


class LearnedScorer:
    """Scores with a model; `features` are those it looks at, `explanation` says which of them moved the score most."""

    def __init__(self, model: ScoreModel, config: ScoreConfig) -> None:
        self._model = model
        self._config = config

    @property
    def name(self) -> str:
        return self._model.name

    def score(self, repository: Repository, checkout: Checkout, tree: Path) -> Score:
        """As in `Scorer`. The material of a domain and task folders are ours or somebody's finished images: 1."""
        if repository.domain is not None or repository.source == TASKS:
            return self._config.scored(repository, self.name, 1.0, {"curated": 1.0})
        found = features_of(repository, checkout, tree)
        probability, explanation = self._model.probability(found), self._model.explanation(found)
        return self._config.scored(repository, self.name, probability, found, explanation)


def held_out(row: Labelled, probability: float) -> HeldOut:
    """A labelled row with what was said of it, without its name."""
    return HeldOut(
        repository_id=row.repository_id,
        owner=hashlib.sha256(row.owner.encode()).hexdigest()[:12],
        label=row.label,
        probability=probability,
        language=row.language,
        domain=row.domain,
        has_dockerfile=bool(row.features.get("has_dockerfile", 0.0)),
        n_bytes=float(np.expm1(row.features.get("log_bytes", 0.0))),
        time=row.time,
        stars=row.stars,
    )
