"""Shares of good items, by day and by part, and what assets show of them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest

from assets.breakdown_figures import breakdown_figures
from assets.metadata import preview_table, stage_bars
from assets.plots import GOOD, INK, OTHERS, funnel_plot, rows_plot, trend_plot
from assets.rating_figures import rating_figures
from pipeline.breakdown import Breakdown, Share, breakdown
from pipeline.quality.ratings import DIMENSIONS
from pipeline.tables import Store

MONDAY = datetime.datetime(2026, 11, 2, 23, 30, tzinfo=datetime.UTC)
TUESDAY = MONDAY + datetime.timedelta(hours=1)


def keep(store: Store, table: str, *rows: Mapping[str, object]) -> None:
    numbered = [{"item_key": f"{table}-{number}", "attempt": 1, **row} for number, row in enumerate(rows)]
    store.append(table, numbered, app_id="test", sequence=1)


def share(items: int, good: int) -> Share:
    return Share(items=items, good=good, rate=round(good / items, 4))


def test_verdicts_are_counted_by_day_agent_language_and_domain(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tasks = ("i1", "go", "general"), ("i2", "c", "sql")
    keep(store, "instances", *({"instance_id": i, "language": lang, "domain": d} for i, lang, d in tasks))
    attempts = ("t1", "i1", "bash"), ("t2", "i1", "oracle"), ("t3", "i2", "bash")
    keep(store, "trajectories", *({"trajectory_id": t, "instance_id": i, "agent": a} for t, i, a in attempts))
    verdicts = ("t1", "failed", MONDAY), ("t2", "passed", MONDAY), ("t3", "passed", TUESDAY)
    keep(store, "verifications", *({"trajectory_id": t, "outcome": o, "recorded_at": at} for t, o, at in verdicts))
    found = breakdown(store, "verifications")
    assert found.good == "passed"
    assert found.by_day == {datetime.date(2026, 11, 2): share(2, 1), datetime.date(2026, 11, 3): share(1, 1)}
    assert found.by_part == {
        "agent": {"bash": share(2, 1), "oracle": share(1, 1)},
        "language": {"go": share(2, 1), "c": share(1, 1)},
        "domain": {"general": share(2, 1), "sql": share(1, 1)},
    }


def test_a_repository_counts_once_however_many_images_were_tried_and_days_list_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keep(store, "listings", *({"repository_id": "r1", "stream": "go", "day": day} for day in ("a", "b")))
    keep(store, "repositories", {"repository_id": "r1", "recorded_at": MONDAY})
    builds = [{"repository_id": "r1", "smoke_ok": ok, "recorded_at": MONDAY} for ok in (False, True)]
    keep(store, "image_builds", *builds, {"repository_id": "r2", "smoke_ok": None, "recorded_at": MONDAY})
    assert breakdown(store, "repositories").by_part == {"stream": {"go": share(1, 1)}}
    assert breakdown(store, "image_builds").by_day == {datetime.date(2026, 11, 2): share(2, 1)}


def test_what_no_row_names_is_unknown_and_only_the_latest_attempt_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = {"item_key": "s", "repository_id": "r1", "kept": False, "recorded_at": MONDAY}
    keep(store, "scores", first, first | {"attempt": 2, "kept": True, "recorded_at": TUESDAY})
    found = breakdown(store, "scores")
    assert found.by_part == {"stream": {"unknown": share(1, 1)}}
    assert found.by_day == {datetime.date(2026, 11, 3): share(1, 1)}


TABLES = (
    "repositories",
    "scores",
    "image_builds",
    "instances",
    "ratings",
    "trajectories",
    "verifications",
    "judgements",
    "curations",
)


@pytest.mark.parametrize("table", TABLES)
def test_before_anything_is_settled_there_is_no_plot_and_no_table(tmp_path: Path, table: str) -> None:
    found = breakdown(Store(tmp_path), table)
    assert found.by_day == {} and not any(found.by_part.values())
    assert breakdown_figures(found, table) == {}


def test_figures_hold_a_trend_and_a_table_of_each_part() -> None:
    found = Breakdown(
        good="passed", by_day={MONDAY.date(): share(4, 3)}, by_part={"language": {"go": share(4, 3)}, "agent": {}}
    )
    figures = breakdown_figures(found, "verifications")
    assert set(figures) == {"trend", "by_language"}
    table = figures["by_language"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data for record in table.records] == [{"part": "go", "items": 4, "passed": 3, "rate": 0.75}]


def test_mean_scores_are_told_apart_by_the_kind_of_rater(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert rating_figures(store) == {}
    scores = ("rules", "i1", 5), ("rules", "i2", 4), ("person", "i1", 2), ("person", "i3", None)
    keep(store, "ratings", *({"kind": k, "instance_id": i, **dict.fromkeys(DIMENSIONS, s)} for k, i, s in scores))
    table = rating_figures(store)["mean_scores"]
    assert isinstance(table, dg.TableMetadataValue)
    found = {record.data["by"]: (record.data["tasks"], record.data["evaluability"]) for record in table.records}
    assert found == {"rules": (2, 4.5), "person": (1, 2.0)}


def test_pictures_of_a_year_stay_small() -> None:
    first = datetime.date(2026, 1, 1)
    year = {first + datetime.timedelta(days=number): share(900_000 + number, 1_000) for number in range(365)}
    stages = [(f"stage {number}", 900_000 - number) for number in range(8)]
    versions = [(f"v{number:04d}", number) for number in range(1, 400)]
    for plot in (trend_plot(year, "passed", "attempts"), funnel_plot(stages), rows_plot(versions)):
        assert len(str(plot.value)) < 60_000


def test_plots_are_read_on_white_and_on_black() -> None:
    """Text needs 4.5:1, other marks 3:1, against the backgrounds of both themes."""
    for colour, least in ((INK, 4.5), (GOOD, 3.0), (OTHERS, 3.0)):
        light = luminance(colour)
        assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= least, colour


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_bars_are_as_long_as_their_share_and_stay_inline() -> None:
    shown = str(stage_bars([("repositories", 900_000), ("kept", 450_000), ("verified", 0)]).value)
    assert shown.splitlines()[2:] == [
        "| repositories | 900,000 | ████████████ |",
        "| kept | 450,000 | ██████ |",
        "| verified | 0 |  |",
    ]
    assert len(shown) < 1_000, "the UI hides longer texts behind a click"


def test_a_row_of_the_preview_is_one_line_and_its_text_stays_text() -> None:
    row = {"trajectory_id": "t1", "reason": "| *a*\n <b> &amp; [x](y) " + "word " * 40, "seconds": 1.23456789}
    shown = str(preview_table([row], ["trajectory_id", "reason", "seconds"]).value)
    head, _, line = shown.splitlines()
    assert head == "| trajectory_id | reason | seconds |"
    cells = line.strip("| ").split(" | ")
    assert cells[0] == "[t1](http://127.0.0.1:3200/trajectories/t1.html)"
    assert cells[2] == "1.23"
    assert not set("|*<[ ") & set(cells[1]) and cells[1].startswith(
        "&#124;&nbsp;&#42;a&#42;&nbsp;&#60;b&#62;&nbsp;&#38;"
    )
