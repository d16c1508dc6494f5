"""The report of images as metadata of the asset image_builds. What is counted is in pipeline/image_report.py."""

from collections.abc import Iterable, Mapping

import dagster as dg

from assets.plots import funnel_plot
from pipeline.image_report import ImageReport, Rates

_RATES = {
    "part": "string",
    "repositories": "int",
    "built": "int",
    "smoke_ok": "int",
    "smoke_ok_rate": "float",
    "tests_ok": "int",
}
_FAILURES = {"failure_class": "string", "repositories": "int", "rate": "float", "infrastructure": "bool"}
_Cells = dict[str, str | int | float | bool | None]


def image_figures(report: ImageReport) -> Mapping[str, dg.MetadataValue]:
    """Rates as numbers that the UI plots over time, the parts as tables, and one picture."""
    stages = [
        ("repositories", report.repositories),
        ("built", report.built),
        ("usable", report.smoke_ok),
        ("tests pass", report.tests_ok),
    ]
    stopped = [
        {"failure_class": name, **one.model_dump(), "infrastructure": name in report.infrastructure}
        for name, one in report.by_failure_class.items()
    ]
    return {
        "built_rate": dg.MetadataValue.float(report.built_rate),
        "built_rate_without_infrastructure": dg.MetadataValue.float(report.built_rate_without_infrastructure),
        "smoke_ok_rate": dg.MetadataValue.float(report.smoke_ok_rate),
        "tests_ok_rate": dg.MetadataValue.float(report.tests_ok_rate),
        "build_seconds_p50": dg.MetadataValue.float(report.build_seconds.p50),
        "build_seconds_p90": dg.MetadataValue.float(report.build_seconds.p90),
        "build_seconds_total": dg.MetadataValue.float(report.build_seconds.total),
        "by_language": _table(_RATES, _cells(report.by_language)),
        "by_strategy": _table(_RATES, _cells(report.by_strategy)),
        "by_origin": _table(_RATES, _cells({"debian": report.packages, "others": report.without_packages})),
        "by_failure_class": _table(_FAILURES, stopped),
        "images": funnel_plot(stages),
    }


def _cells(parts: Mapping[str, Rates]) -> list[_Cells]:
    return [{"part": name, **rates.model_dump(include=set(_RATES))} for name, rates in parts.items()]


def _table(columns: Mapping[str, str], rows: Iterable[_Cells]) -> dg.MetadataValue:
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)
