"""`touchstone report images`, and the same figures in the Dagster UI."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.image_figures import image_figures
from assets.report import report
from pipeline.image_report import image_report
from pipeline.tables import Store

NAMED = {"repositories", "built_rate", "smoke_ok_rate", "by_language", "by_strategy", "by_failure_class"}


@pytest.fixture
def place(tmp_path: Path, options: list[str]) -> list[str]:
    """Options that name a configuration and a data folder of this test, which holds three repositories."""
    store = Store(tmp_path / "data")
    rows = [
        {"repository_id": name, "item_key": name, "attempt": 1, "reason": "", "strategy": "template", **columns}
        for name, columns in (
            ("a", {"status": "built", "smoke_ok": True, "seconds": 4.0}),
            ("b", {"status": "failed", "failure_class": "compile_failed", "seconds": 2.0}),
            ("c", {"status": "failed", "failure_class": "bell\x07[/none]"}),
        )
    ]
    store.append("image_builds", rows, app_id="test", sequence=1)
    return options


def test_json_is_one_line_with_the_promised_names(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["images", "--json", *place], catch_exceptions=False)
    assert answer.stdout.count("\n") == 1
    found = json.loads(answer.stdout)
    assert found.keys() >= {*NAMED, "build_seconds"}
    assert (found["repositories"], found["built_rate"], found["build_seconds"]["total"]) == (3, 0.3333, 6.0)


def test_the_tables_show_rates_and_failures_and_no_control_characters(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["images", *place], catch_exceptions=False)
    for shown in ("1 (33.3%)", "compile_failed", "median 3 s", r"bell\x07[/none]"):
        assert shown in answer.stdout
    assert "\x07" not in answer.stdout


def test_an_empty_folder_name_is_refused(place: list[str]) -> None:
    answer = CliRunner().invoke(report, ["images", "--data", ""])
    assert answer.exit_code == 2


def test_the_metadata_of_dagster_carry_the_rates_the_tables_and_a_picture(place: list[str]) -> None:
    figures = image_figures(image_report(Store(Path(place[-1]))))
    assert figures["built_rate"].value == 0.3333
    table = figures["by_failure_class"]
    assert isinstance(table, dg.TableMetadataValue)
    assert {record.data["failure_class"] for record in table.records} == {"compile_failed", "bell\x07[/none]"}
    picture = figures["images"]
    assert isinstance(picture, dg.MarkdownMetadataValue)
    assert picture.md_str and "data:image/png;base64," in picture.md_str


def test_the_metadata_of_nothing_are_tables_without_records(tmp_path: Path) -> None:
    table = image_figures(image_report(Store(tmp_path)))["by_language"]
    assert isinstance(table, dg.TableMetadataValue)
    assert table.records == []
