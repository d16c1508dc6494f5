"""What the checks of an asset say of a stage that has run, and of the tables that it writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.checks import BESIDE, STAGE, completeness, table_results, yield_result
from assets.resources import Workshop
from assets.settings import Settings
from pipeline.batch import StageReport
from pipeline.row_checks import IDS, UPSTREAM
from pipeline.schemas import Row
from pipeline.stage_yields import YieldsConfig
from pipeline.tables import Store
from tests.unit.test_definitions import GRAPH

NOW = datetime(2026, 11, 3, tzinfo=UTC)


def put(store: Store, table: str, *rows: Row) -> None:
    keyed: list[Row] = [
        {"item_key": str(number), "attempt": 1, "reason": "", "recorded_at": NOW, **row}
        for number, row in enumerate(rows)
    ]
    store.append(table, keyed, app_id="test", sequence=1)


def report(*, total: int, done: int, missing: tuple[str, ...] = ()) -> StageReport:
    return StageReport("build", total, 0, done, {"build_failed": 1}, missing, 1.0)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (report(total=3, done=2), ""),
        (report(total=4, done=2), "1 items are not settled"),
        (report(total=3, done=2, missing=("image_builds: r",)), "image_builds: r has no row"),
    ],
)
def test_a_stage_is_complete_when_each_of_its_items_is_settled_and_has_its_rows(found: StageReport, said: str) -> None:
    result = completeness(found)
    assert (result.passed, result.metadata["first"].value) == (not said, said)
    assert result.severity is dg.AssetCheckSeverity.ERROR


def test_the_check_of_an_asset_looks_at_every_table_that_it_writes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, "instances", {"instance_id": "task", "repository_id": "r", "admitted": True})
    put(store, "image_builds", {"repository_id": "r", "smoke_ok": True})
    put(store, "selections", {"instance_id": "task"}, {"instance_id": "task"}, {"instance_id": "nowhere"})
    schema, unique, upstream = table_results(store, "instances")
    assert schema.passed
    assert unique.metadata["first"].value == "selections: task is there 2 times"
    assert upstream.metadata["first"].value == "selections: nowhere comes from no row of instances"
    assert {result.check_name for result in (schema, unique, upstream)} < {promise.name for promise in STAGE}


def test_every_stage_has_a_rule_for_each_of_its_checks() -> None:
    for asset in GRAPH:
        assert {asset, *BESIDE.get(asset, ())} <= set(IDS)
        assert asset in UPSTREAM
        assert YieldsConfig().of(asset)


def test_a_yield_out_of_its_bounds_is_a_warning_with_both_figures(tmp_path: Path) -> None:
    settings = Settings(yields=YieldsConfig(trajectories=(0.5, 1.0), min_items=2))
    shop = Workshop(settings, tmp_path, tmp_path / "data")
    put(shop.store(), "trajectories", {"trajectory_id": "a"}, {}, {})
    result = yield_result(shop, "trajectories", NOW - timedelta(days=1))
    assert not result.passed and result.severity is dg.AssetCheckSeverity.WARN
    assert result.metadata["now"].value == "1 of 3 (33%)"
    assert result.metadata["first"].value == "1 of 3 (33%) were kept, expected are 50% to 100%"
    assert yield_result(shop, "trajectories", NOW + timedelta(days=1)).passed
