"""What a run kept of its items, beside what was kept before and what was expected."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.schemas import Row
from pipeline.stage_yields import Yield, YieldsConfig, unusual, yields
from pipeline.tables import Store

BEFORE, BEGAN, NOW = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3))
CONFIG = YieldsConfig(image_builds=(0.5, 1.0))


def of(kept: int, total: int) -> Yield:
    return Yield(kept=kept, total=total)


def test_items_are_counted_once_and_apart_by_the_time_they_were_recorded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows: list[Row] = [
        {"repository_id": "old", "smoke_ok": True, "recorded_at": BEFORE},
        {"repository_id": "old2", "smoke_ok": False, "recorded_at": BEFORE},
        {"repository_id": "new", "status": "failed", "recorded_at": NOW},
        {"repository_id": "new", "smoke_ok": True, "recorded_at": NOW},
        {"repository_id": "new2", "status": "failed", "recorded_at": NOW},
        {"repository_id": "new3", "status": "failed", "recorded_at": NOW},
    ]
    keyed = [row | {"item_key": row["repository_id"], "attempt": 1, "reason": ""} for row in rows]
    store.append("image_builds", keyed, app_id="test", sequence=1)
    assert yields(store, "image_builds", BEGAN) == (of(1, 2), of(1, 3))
    assert yields(store, "verifications", BEGAN) == (of(0, 0), of(0, 0))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (of(0, 0), of(9, 30), ["9 of 30 (30%) were kept, expected are 50% to 100%"]),
        (of(99, 100), of(18, 30), ["18 of 30 (60%) were kept, 99 of 100 (99%) of those before"]),
        (of(520, 1000), of(200, 200), ["200 of 200 (100%) were kept, 520 of 1000 (52%) of those before"]),
        (of(60, 100), of(18, 30), []),
        (of(100, 100), of(28, 30), []),
        (of(100, 100), of(0, 19), []),
        (of(19, 19), of(15, 30), []),
        (of(100, 100), of(0, 0), []),
    ],
)
def test_a_yield_is_unusual_outside_of_its_bounds_or_far_from_the_former_one(
    before: Yield, now: Yield, said: list[str]
) -> None:
    assert unusual(before, now, CONFIG, "image_builds") == said


@pytest.mark.parametrize("bounds", [(0.9, 0.1), (-0.1, 1.0), (0.0, 2.0)])
def test_bounds_that_cannot_be_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValidationError, match="least and the most"):
        YieldsConfig(scores=bounds)
