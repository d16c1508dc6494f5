"""How good the learned score is and what each threshold would keep: what `touchstone report scoring` tells.

Labels are counted over the working tables. Everything else is of the held-out rows that the newest score model carries:
repositories that the evaluated model had never seen, nor anything of their owners. Nothing is trained or scored here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pipeline.rows import repository_of
from pipeline.schemas import to_rows
from pipeline.scoring import metrics
from pipeline.scoring.labels import labels
from pipeline.scoring.learned import FOLDER, HeldOut, ScoreModel, newest
from pipeline.scoring.metrics import CalibrationBin, Floats, Interval, Labels
from pipeline.tables import Store
from pipeline.types import Record

BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Shares of the held-out repositories that are built."""
BUDGET = 0.2
"""The one by which scorers are compared."""
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


class AtBudget(Record):
    """What building the best share gives."""

    share: float
    builds: int
    success_rate: float
    lift: Interval


class Heuristic(Record):
    """Another way to choose, at BUDGET, and by how much the model's lift and AUC are above its own."""

    lift_at_20: Interval
    advantage: Interval
    auc: float | None
    auc_advantage: Interval | None
    """None where all or none succeeded."""


class Threshold(Record):
    """What is kept from a probability up, and how varied it is."""

    kept_by: str
    kept: int
    success_rate: float
    language_entropy: float
    domain_entropy: float


class HeldOutReport(Record):
    """Figures over the held-out repositories."""

    n: int
    owners: int
    base_rate: float
    auc: float | None
    auc_interval: Interval | None
    calibration_error: float | None
    calibration: tuple[CalibrationBin, ...]
    lift_at_20: float | None
    lift_interval: tuple[float, float] | None
    best_possible_lift: float | None
    vs_heuristics: dict[str, Heuristic]
    budgets: tuple[AtBudget, ...]
    thresholds: tuple[Threshold, ...]


class ScoringReport(Record):
    """Everything there is to say of the learned score of one data folder."""

    labelled_builds: int
    """Repositories whose first build says something of them."""
    base_rate: float
    """Share of them that gave a usable image at the first attempt."""
    model: str | None
    """Name of the newest score model; None before there is one."""
    trained_on: int
    """Labelled builds that it knows."""
    heldout: HeldOutReport | None


def scoring_report(store: Store, data: Path) -> ScoringReport:
    """Count labels, and judge the newest model. Raises TableDamaged, and ConfigurationError for a damaged model."""
    repositories = [repository_of(row) for row in to_rows(store.current("repositories"))]
    columns = ["repository_id", "status", "failure_class", "smoke_ok", "repairs"]
    known = [label for label, _ in labels(repositories, to_rows(store.current("image_builds", columns))).values()]
    path = newest(data / FOLDER)
    model = ScoreModel.read(path) if path is not None else None
    return ScoringReport(
        labelled_builds=len(known),
        base_rate=round(sum(known) / len(known), 4) if known else 0.0,
        model=model.name if model else None,
        trained_on=int(model.training.get("labels", 0)) if model else 0,
        heldout=held_out_report(model.heldout) if model and model.heldout else None,
    )


def held_out_report(rows: Sequence[HeldOut]) -> HeldOutReport:
    """All figures of some held-out rows, at least one."""
    found = np.array([row.label for row in rows])
    told = np.array([row.probability for row in rows])
    counts = metrics.resamples([row.owner for row in rows])
    table = metrics.calibration(found, told)
    lift = metrics.lift(found, told, BUDGET)
    spread = metrics.interval(lift, metrics.lifts(counts, found, told, BUDGET)) if lift is not None else None
    area = metrics.auc(found, told)
    return HeldOutReport(
        n=len(rows),
        owners=len({row.owner for row in rows}),
        base_rate=round(float(found.mean()), 4),
        auc=_rounded(area),
        auc_interval=None if area is None else metrics.interval(area, metrics.aucs(counts, found, told)),
        calibration_error=_rounded(metrics.calibration_error(table)),
        calibration=tuple(table),
        lift_at_20=_rounded(lift),
        lift_interval=(spread.low, spread.high) if spread else None,
        best_possible_lift=_rounded(metrics.best_lift(found, BUDGET)),
        vs_heuristics={} if lift is None else _heuristics(rows, found, told, counts),
        budgets=() if lift is None else tuple(_at_budget(share, found, told, counts) for share in BUDGETS),
        thresholds=tuple(_thresholds(rows)),
    )


def _at_budget(share: float, found: Labels, told: Floats, counts: Floats) -> AtBudget:
    builds = metrics.budget_of(len(found), share)
    lift = metrics.lift(found, told, share)
    assert lift is not None  # asked only where there is a success
    return AtBudget(
        share=share,
        builds=builds,
        success_rate=round(metrics.successes_at(found, told, share) / builds, 4),
        lift=metrics.interval(lift, metrics.lifts(counts, found, told, share)),
    )


def _heuristics(rows: Sequence[HeldOut], found: Labels, told: Floats, counts: Floats) -> dict[str, Heuristic]:
    """At random, by size in both directions, by recency, and by stars where every row has some."""
    times = sorted({row.time for row in rows})
    orders: dict[str, Floats] = {
        "random": np.zeros(len(rows)),
        "largest": np.array([row.n_bytes for row in rows]),
        "smallest": np.array([-row.n_bytes for row in rows]),
    }
    if len(times) > 1:
        orders["newest"] = np.array([float(times.index(row.time)) for row in rows])
    if all(row.stars is not None for row in rows):
        orders["stars"] = np.array([row.stars or 0.0 for row in rows])
    own = metrics.lifts(counts, found, told, BUDGET)
    return {name: _against(order, found, told, counts, own) for name, order in orders.items()}


def _against(order: Floats, found: Labels, told: Floats, counts: Floats, own_lifts: Floats) -> Heuristic:
    own, other = metrics.lift(found, told, BUDGET), metrics.lift(found, order, BUDGET)
    assert own is not None and other is not None  # asked only where there is a success
    lifts = metrics.lifts(counts, found, order, BUDGET)
    own_auc, other_auc = metrics.auc(found, told), metrics.auc(found, order)
    return Heuristic(
        lift_at_20=metrics.interval(other, lifts),
        advantage=metrics.interval(own - other, own_lifts - lifts),
        auc=_rounded(other_auc),
        auc_advantage=None
        if own_auc is None or other_auc is None
        else metrics.interval(
            own_auc - other_auc, metrics.aucs(counts, found, told) - metrics.aucs(counts, found, order)
        ),
    )


def _thresholds(rows: Sequence[HeldOut]) -> list[Threshold]:
    """All, those with a Dockerfile, then from one probability to the next."""
    kept: dict[str, Callable[[HeldOut], bool]] = {
        "all": lambda row: True,
        "has a Dockerfile": lambda row: row.has_dockerfile,
    }
    sweep = [_threshold(name, [row for row in rows if keeps(row)]) for name, keeps in kept.items()]
    return sweep + [_threshold(f">= {one:g}", [row for row in rows if row.probability >= one]) for one in THRESHOLDS]


def _threshold(name: str, rows: Sequence[HeldOut]) -> Threshold:
    return Threshold(
        kept_by=name,
        kept=len(rows),
        success_rate=round(sum(row.label for row in rows) / len(rows), 4) if rows else 0.0,
        language_entropy=round(metrics.entropy(row.language for row in rows), 3),
        domain_entropy=round(metrics.entropy(row.domain for row in rows), 3),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
