"""The report of scoring: tables for people, and metadata of the asset score_model. What is counted is in
pipeline/scoring_report.py."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import dagster as dg

from assets.plots import calibration_plot
from assets.visible import visible
from pipeline.scoring.learned import ScoreModel
from pipeline.scoring.metrics import Interval
from pipeline.scoring_report import HeldOutReport, ScoringReport

if TYPE_CHECKING:
    from rich.table import Table

_WEIGHTS = {"feature": "string", "weight": "float"}
_SHOWN = 20


def scoring_figures(found: ScoringReport, model: ScoreModel) -> Mapping[str, dg.MetadataValue]:
    """Numbers that the UI plots over time, the strongest weights, and the calibration as a picture."""
    weights = sorted(zip(model.features, model.weights, strict=True), key=lambda one: -abs(one[1]))[:_SHOWN]
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in _WEIGHTS.items()])
    records = [dg.TableRecord({"feature": name, "weight": round(weight, 4)}) for name, weight in weights]
    figures: dict[str, dg.MetadataValue] = {
        "labelled_builds": dg.MetadataValue.int(found.labelled_builds),
        "base_rate": dg.MetadataValue.float(found.base_rate),
        "weights": dg.MetadataValue.table(records, schema),
    }
    held = found.heldout
    if held is None:
        return figures
    for name in ("auc", "calibration_error", "lift_at_20", "best_possible_lift"):
        if (value := getattr(held, name)) is not None:
            figures[name] = dg.MetadataValue.float(value)
    points = [(one.foretold, one.came, one.n) for one in held.calibration]
    return {**figures, "heldout": dg.MetadataValue.int(held.n), "calibration": calibration_plot(points)}


def scoring_tables(found: ScoringReport) -> "list[Table]":
    """The report for people; no empty table."""
    if found.heldout is None:
        return []
    held = found.heldout
    return [
        table for table in (_orders(held), _budgets(held), _calibration(held), _thresholds(held)) if table.row_count
    ]


def scoring_remarks(found: ScoringReport) -> list[str]:
    """What no table says."""
    labels = f"{found.labelled_builds} labelled first builds, {found.base_rate:.1%} of them usable"
    if found.model is None:
        return [f"{labels}; there is no score model yet: materialize the asset score_model"]
    remarks = [f"{labels}; the newest model is {found.model}, trained on {found.trained_on}"]
    if (held := found.heldout) is not None:
        auc = "none" if held.auc is None else f"{held.auc:.3f}"
        error = "none" if held.calibration_error is None else f"{held.calibration_error:.3f}"
        remarks.append(
            f"{held.n} held out, of {held.owners} owners that it had never seen: base rate {held.base_rate:.1%}, AUC "
            f"{auc}, calibration error {error}, best possible lift at 20 % {held.best_possible_lift or 0.0:g}"
        )
    return remarks


def _orders(held: HeldOutReport) -> "Table":
    from rich.table import Table

    table = Table(
        "order", "lift at 20 %", "the model's advantage", "AUC", "its advantage", title="built by score, and otherwise"
    )
    if held.lift_at_20 is not None and held.lift_interval is not None:
        low, high = held.lift_interval
        own = Interval(value=held.lift_at_20, low=low, high=high)
        table.add_row("model", _shown(own), "", "" if held.auc is None else f"{held.auc:.3f}")
    for name, one in held.vs_heuristics.items():
        auc = "" if one.auc is None else f"{one.auc:.3f}"
        ahead = "" if one.auc_advantage is None else _shown(one.auc_advantage)
        table.add_row(visible(name), _shown(one.lift_at_20), _shown(one.advantage), auc, ahead)
    return table


def _budgets(held: HeldOutReport) -> "Table":
    from rich.table import Table

    table = Table("built", "builds", "usable", "lift", title="by budget")
    for one in held.budgets:
        table.add_row(f"{one.share:.0%}", str(one.builds), f"{one.success_rate:.1%}", _shown(one.lift))
    return table


def _calibration(held: HeldOutReport) -> "Table":
    from rich.table import Table

    table = Table("repositories", "foretold", "came", title="calibration")
    for one in held.calibration:
        table.add_row(str(one.n), f"{one.foretold:.1%}", f"{one.came:.1%}")
    return table


def _thresholds(held: HeldOutReport) -> "Table":
    from rich.table import Table

    columns = ("kept by", "kept", "usable", "entropy of languages", "of domains")
    table = Table(*columns, title="by threshold (entropies in bits)")
    for one in held.thresholds:
        entropies = (f"{one.language_entropy:.2f}", f"{one.domain_entropy:.2f}")
        table.add_row(visible(one.kept_by), str(one.kept), f"{one.success_rate:.1%}", *entropies)
    return table


def _shown(one: Interval) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"
