"""Figures of the learned score: hand-computed ones, and the command that tells them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from assets.report import report
from assets.scoring_figures import scoring_figures
from pipeline.scoring import metrics
from pipeline.scoring.features import VERSION
from pipeline.scoring.learned import FOLDER, HeldOut, ScoreModel
from pipeline.scoring_report import held_out_report, scoring_report
from pipeline.tables import Store
from pipeline.types import Repository

PROMISED = {"labelled_builds", "base_rate", "heldout"}
PROMISED_HELD_OUT = {
    "n",
    "auc",
    "calibration_error",
    "lift_at_20",
    "best_possible_lift",
    "lift_interval",
    "vs_heuristics",
}


def labels(*values: int) -> metrics.Labels:
    return np.array(values, dtype=bool)


def scores(*values: float) -> metrics.Floats:
    return np.array(values, dtype=float)


def held(probabilities: Sequence[float], successes: Sequence[int], **columns: object) -> list[HeldOut]:
    rows = []
    for number, (probability, label) in enumerate(zip(probabilities, successes, strict=True)):
        plain: dict[str, object] = {
            "repository_id": f"r{number}",
            "owner": f"o{number}",
            "label": bool(label),
            "probability": probability,
            "language": ("c", "go")[number % 2],
            "domain": "general",
            "has_dockerfile": number % 2 == 0,
            "n_bytes": float(number),
            "time": f"2026-01-{number % 2 + 1:02d}",
        }
        rows.append(HeldOut.model_validate(plain | columns))
    return rows


def test_auc_counts_pairs_and_half_of_ties() -> None:
    assert metrics.auc(labels(1, 0, 1, 0), scores(0.9, 0.1, 0.5, 0.5)) == pytest.approx(3.5 / 4)
    assert metrics.auc(labels(1, 1), scores(0.9, 0.1)) is None


def test_ties_at_the_border_of_a_budget_are_drawn_at_random() -> None:
    assert metrics.successes_at(labels(1, 1, 0, 0), scores(3, 2, 2, 1), 0.5) == pytest.approx(1.5)
    assert metrics.lift(labels(1, 0, 0, 0, 1, 0, 0, 0, 0, 0), scores(*[0.0] * 10), 0.2) == pytest.approx(1.0)


def test_lift_and_its_best_possible_value() -> None:
    found = labels(1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
    assert metrics.lift(found, scores(9, 8, 7, 1, 0, 0, 0, 0, 0, 0), 0.2) == pytest.approx((1 / 2) / 0.2)
    assert metrics.best_lift(found, 0.2) == pytest.approx(5.0)
    assert metrics.best_lift(labels(1, 1, 1, 1, 0), 0.2) == pytest.approx(1 / 0.8)
    assert metrics.lift(labels(0, 0), scores(1, 2), 0.2) is None


def test_calibration_error_is_the_weighted_distance_of_what_was_foretold() -> None:
    table = metrics.calibration(labels(0, 0, 1, 1), scores(0.1, 0.3, 0.8, 0.8), bins=2)
    assert [(one.n, one.foretold, one.came) for one in table] == [(2, 0.2, 0.0), (2, 0.8, 1.0)]
    assert metrics.calibration_error(table) == pytest.approx(0.2)


def test_entropy_is_in_bits() -> None:
    assert metrics.entropy("abcd") == pytest.approx(2.0)
    assert metrics.entropy("aaaa") == metrics.entropy("") == 0.0


def test_an_interval_widens_when_rows_belong_to_few_owners() -> None:
    found = np.array([1, 0] * 20, dtype=bool)

    def of(owners: list[str]) -> metrics.Interval:
        counts = metrics.resamples(owners)
        return metrics.interval(0.5, (counts * found).sum(axis=1) / counts.sum(axis=1))

    alone, shared = of([str(i) for i in range(40)]), of([str(i % 2) for i in range(40)])
    assert alone.high - alone.low < 0.4 < shared.high - shared.low
    assert alone == of([str(i) for i in range(40)])


def test_figures_over_resamples_are_those_of_the_rows_that_were_drawn() -> None:
    found, told = labels(1, 0, 1, 0, 0, 1), scores(0.9, 0.8, 0.5, 0.5, 0.2, 0.1)
    counts = np.array([[2.0, 0, 1, 1, 3, 0], [1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 0]])
    drawn = np.repeat(np.arange(6), counts[0].astype(int))
    lifts, areas = metrics.lifts(counts, found, told, 0.5), metrics.aucs(counts, found, told)
    assert lifts[0] == pytest.approx(metrics.lift(found[drawn], told[drawn], 0.5))
    assert areas[0] == pytest.approx(metrics.auc(found[drawn], told[drawn]))
    assert lifts[1] == pytest.approx(metrics.lift(found, told, 0.5))
    assert np.isnan(lifts[2]) and np.isnan(areas[2])


def test_the_report_of_held_out_rows_compares_with_other_orders() -> None:
    found = held_out_report(held([0.9, 0.8] + [0.1] * 8, [1, 1] + [0] * 8))
    assert (found.auc, found.lift_at_20, found.best_possible_lift, found.base_rate) == (1.0, 5.0, 5.0, 0.2)
    assert found.vs_heuristics["random"].lift_at_20.value == 1.0
    assert found.vs_heuristics["largest"].lift_at_20.value == 0.0
    assert found.vs_heuristics["smallest"].lift_at_20.value == 5.0
    largest = found.vs_heuristics["largest"]
    assert largest.advantage.value == 5.0
    assert largest.auc is not None and largest.auc_advantage is not None
    assert largest.auc_advantage.value == 1.0 - largest.auc and largest.auc_advantage.high <= 1.0
    assert "stars" not in found.vs_heuristics
    assert "stars" in held_out_report(held([0.9, 0.1], [1, 0], stars=3.0)).vs_heuristics
    by_name = {one.kept_by: one for one in found.thresholds}
    assert (by_name["all"].kept, by_name["has a Dockerfile"].kept, by_name[">= 0.5"].kept) == (10, 5, 2)
    assert by_name[">= 0.5"].success_rate == 1.0 and by_name["all"].language_entropy == 1.0


def test_held_out_rows_of_one_class_have_no_lift_and_no_auc() -> None:
    found = held_out_report(held([0.5, 0.6], [0, 0]))
    assert (found.auc, found.lift_at_20, found.lift_interval, found.vs_heuristics, found.budgets) == (
        *(None, None, None),
        {},
        (),
    )


def model_with(rows: list[HeldOut]) -> ScoreModel:
    return ScoreModel(
        features_version=VERSION,
        features=("a",),
        means=(0.0,),
        scales=(1.0,),
        weights=(1.0,),
        bias=0.0,
        slope=1.0,
        offset=0.0,
        training={"labels": 20.0},
        heldout=tuple(rows),
    )


@pytest.fixture
def place(tmp_path: Path, options: list[str]) -> list[str]:
    """Options that name a configuration and a data folder of this test, which holds three labelled builds of five."""
    store = Store(tmp_path / "data")
    builds = [
        {"status": "built", "smoke_ok": True},
        {"status": "failed", "failure_class": "compile_failed"},
        {"status": "built", "smoke_ok": False, "failure_class": "smoke_failed"},
        {"status": "failed", "failure_class": "infrastructure"},
        {"status": "failed", "failure_class": "needs_buildkit"},
    ]
    repositories, rows = [], []
    for number, build in enumerate(builds):
        one = Repository(source="github", full_name=f"o/r{number}", commit="1", language="c", locator="x")
        batch = {"item_key": one.repository_id, "attempt": 1, "reason": "", "recorded_at": datetime.now(UTC)}
        repositories.append({**one.model_dump(), "repository_id": one.repository_id, "tree_sha256": "0", **batch})
        rows.append({"repository_id": one.repository_id, "strategy": "template", **batch, **build})
    store.append("repositories", repositories, app_id="test", sequence=1)
    store.append("image_builds", rows, app_id="test", sequence=1)
    return options


def test_before_there_is_a_model_labels_are_counted_and_nothing_is_held_out(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["scoring", "--json", *place], catch_exceptions=False)
    found = json.loads(answer.stdout)
    assert answer.stdout.count("\n") == 1 and found.keys() >= PROMISED
    assert (found["labelled_builds"], found["base_rate"], found["heldout"]) == (3, 0.3333, None)
    told = CliRunner().invoke(report, ["scoring", *place], catch_exceptions=False).stdout
    assert "materialize the asset score_model" in told.replace("\n", " ")


def test_json_has_the_promised_names_and_the_tables_the_same_figures(tmp_path: Path, place: list[str]) -> None:
    model_with(held([0.9, 0.8] + [0.1] * 8, [1, 1] + [0] * 8)).write(tmp_path / "data" / FOLDER)
    found = json.loads(CliRunner().invoke(report, ["scoring", "--json", *place], catch_exceptions=False).stdout)
    assert found["heldout"].keys() >= PROMISED_HELD_OUT
    assert found["heldout"]["lift_at_20"] == 5.0 and found["trained_on"] == 20
    told = CliRunner().invoke(report, ["scoring", *place], catch_exceptions=False).stdout
    for shown in ("5.00 [", "largest", "has a Dockerfile", "10 held out", "AUC 1.000"):
        assert shown in told


def test_a_damaged_model_is_named_with_the_remedy(tmp_path: Path, place: list[str]) -> None:
    path = model_with(held([0.9, 0.1], [1, 0])).write(tmp_path / "data" / FOLDER)
    path.write_text(path.read_text()[:-40])
    answer = CliRunner().invoke(report, ["scoring", *place])
    assert "is no score model" in str(answer.exception) and "score_model again" in str(answer.exception)


def test_the_figures_of_the_asset_hold_a_calibration_plot(tmp_path: Path, place: list[str]) -> None:
    model = model_with(held([0.9, 0.8] + [0.1] * 8, [1, 1] + [0] * 8))
    model.write(tmp_path / "data" / FOLDER)
    figures = scoring_figures(scoring_report(Store(tmp_path / "data"), tmp_path / "data"), model)
    assert str(figures["calibration"].value).startswith("![calibration](data:image/png;base64,")
    assert figures["auc"].value == 1.0 and figures["labelled_builds"].value == 3
