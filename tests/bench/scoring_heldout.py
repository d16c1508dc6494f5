"""Labels -> two halves, and what a model of the one says of the other.

The splits were fixed before the first build, each of them half and half:

- by owner (the one that counts): an owner's rows are held out when the hash of the owner is odd;
- by time: what was changed last (commit, upload or signature of the packaging) is held out, the rest is trained on;
  rows without a date are left out, and so is in training whoever owns a held-out row.

Fitting is training/methods/score_model.py, the figures are pipeline/scoring_report.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.scoring import metrics
from pipeline.scoring.labels import Labelled
from pipeline.scoring.learned import held_out
from pipeline.scoring_report import BUDGET, held_out_report
from training.methods.score_model import ScoreModelConfig, fit

Halves = tuple[list[Labelled], list[Labelled]]
"""What is trained on, and what is held out."""


def by_owner(rows: Sequence[Labelled]) -> Halves:
    odd = {row.owner: hashlib.sha256(f"held out/{row.owner}".encode()).digest()[-1] % 2 for row in rows}
    return [row for row in rows if not odd[row.owner]], [row for row in rows if odd[row.owner]]


def by_time(rows: Sequence[Labelled]) -> Halves:
    dated = sorted((row for row in rows if row.time), key=lambda row: (row.time, row.repository_id))
    held = dated[len(dated) // 2 :]
    owners = {row.owner for row in held}
    return [row for row in dated[: len(dated) // 2] if row.owner not in owners], held


def judged(halves: Halves, static: Mapping[str, float]) -> dict[str, object]:
    """Figures of a model of the first half over the second, and of the former scorer's scores beside it."""
    training, held = halves
    model = fit(training, ScoreModelConfig())
    told = np.array([model.probability(row.features) for row in held])
    found = np.array([row.label for row in held])
    report = held_out_report([held_out(row, float(one)) for row, one in zip(held, told, strict=True)])
    counts = metrics.resamples([held_out(row, 0.0).owner for row in held])
    best = metrics.lifts(counts, found, found.astype(float), BUDGET)
    shares = metrics.lifts(counts, found, told, BUDGET) / best
    share = (report.lift_at_20 or 0.0) / (report.best_possible_lift or 1.0)
    former = np.array([static[row.repository_id] for row in held])
    return {
        "trained_on": len(training),
        "base_rate_of_training": round(sum(row.label for row in training) / len(training), 4),
        "penalty": model.training["penalty"],
        "share_of_best_lift": metrics.interval(share, shares).model_dump(),
        "static": {"lift_at_20": metrics.lift(found, former, BUDGET), "auc": metrics.auc(found, former)},
        **report.model_dump(),
    }
