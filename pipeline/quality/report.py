"""Quality by bin of repository scores, and how far raters agree: what `touchstone report quality` tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.quality.agreement import Mean, mean_kappa, mean_of
from pipeline.quality.ratings import DIMENSIONS, Dimension
from pipeline.quality.sampling import BINS
from pipeline.schemas import Row
from pipeline.types import Record

NO_BIN = "domains"
"""Stands for the bin of tasks from material of ours, which no scorer judges."""


class Agreement(Record):
    """How far raters agree on one dimension."""

    kappa: float | None
    """Mean quadratic-weighted kappa over pairs of raters; None when no two of them can be compared."""
    items: int
    """Instances that at least two raters scored."""


class QualityReport(Record):
    """Everything there is to say of the ratings of one data folder."""

    ratings: int
    raters: dict[str, int]
    """Instances rated by each."""
    by_kind: dict[str, dict[str, dict[Dimension, Mean | None]]]
    """Kind of rater -> bin -> dimension -> mean of the scores, in which an instance counts once per rater."""
    agreement: dict[Dimension, Agreement]
    """Between all raters, rules and models included."""


def quality_report(rows: Sequence[Row], bins: Mapping[str, str]) -> QualityReport:
    """`rows` of the table ratings; `bins` by instance id, for instances that have one."""
    rated = [row for row in rows if row["task_soundness"] is not None]
    raters: dict[str, dict[str, Row]] = {}
    for row in rated:
        raters.setdefault(f"{row['kind']}: {row['rater']}", {})[str(row["instance_id"])] = row
    latest = [row for items in raters.values() for row in items.values()]
    return QualityReport(
        ratings=len(latest),
        raters={name: len(items) for name, items in raters.items()},
        by_kind={
            kind: {name: _means(latest, kind, name, bins) for name in (*BINS, NO_BIN)}
            for kind in sorted({str(row["kind"]) for row in latest})
        },
        agreement={dimension: _agreement(raters, dimension) for dimension in DIMENSIONS},
    )


def _means(rows: Sequence[Row], kind: str, name: str, bins: Mapping[str, str]) -> dict[Dimension, Mean | None]:
    chosen = [row for row in rows if row["kind"] == kind and bins.get(str(row["instance_id"]), NO_BIN) == name]
    return {dimension: mean_of([_score(row, dimension) for row in chosen]) for dimension in DIMENSIONS}


def _agreement(raters: Mapping[str, Mapping[str, Row]], dimension: Dimension) -> Agreement:
    scores = {name: {item: _score(row, dimension) for item, row in rows.items()} for name, rows in raters.items()}
    value, items = mean_kappa(scores)
    return Agreement(kappa=value, items=items)


def _score(row: Row, dimension: Dimension) -> int:
    score = row[dimension]
    assert isinstance(score, int)
    return score
