"""The report of instances as metadata of the asset instances. What is counted is in pipeline/instance_report.py."""

from collections.abc import Mapping

import dagster as dg

from assets.plots import funnel_plot
from pipeline.instance_report import InstanceReport, Yield

_YIELDS = {"part": "string", "written": "int", "admitted": "int", "rate": "float"}
_GATES = {"gate": "string", "reached": "int", "passed": "int", "rate": "float"}
_DOMAINS = {**_YIELDS, "families": "int", "levels": "int"}


def instance_figures(report: InstanceReport) -> Mapping[str, dg.MetadataValue]:
    """Counts that the UI plots over time, the parts as tables, and one picture of the gates."""
    gates = [{"gate": name, **one.model_dump()} for name, one in report.by_gate.items()]
    return {
        "admitted": dg.MetadataValue.int(report.admitted),
        "documented": dg.MetadataValue.int(report.documented),
        "domains_complete": dg.MetadataValue.int(report.domains_complete),
        "by_gate": _table(_GATES, gates),
        "by_domain": _parts(_DOMAINS, report.by_domain),
        "by_language": _parts(_YIELDS, report.by_language),
        "by_difficulty": _parts(_YIELDS, report.by_difficulty),
        "by_generator": _parts(_YIELDS, report.by_generator),
        "gates": funnel_plot([(name, one.passed) for name, one in report.by_gate.items()]),
    }


def _parts(columns: Mapping[str, str], parts: Mapping[str, Yield]) -> dg.MetadataValue:
    return _table(columns, [{"part": name, **one.model_dump(include=set(columns))} for name, one in parts.items()])


def _table(columns: Mapping[str, str], rows: list[dict[str, str | int | float | bool | None]]) -> dg.MetadataValue:
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema)
