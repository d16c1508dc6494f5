"""The report of curation: tables for people, and metadata of the asset curations. What is counted is in
pipeline/curation_report.py."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.plots import funnel_plot
from assets.visible import visible
from pipeline.curation_report import CurationReport

if TYPE_CHECKING:
    from rich.table import Table

_STEPS = {"step": "string", "came": "int", "excluded": "int", "left": "int"}
_FINDINGS = {"kind": "string", "rows": "int", "replaced": "int", "planted": "int"}
_LICENCES = {"licence": "string", "verified": "int", "kept": "int"}
_QUEUE = {"trajectory_id": "string", "instance_id": "string", "task": "string", "reason": "string"}
_SHOWN = 20
"""Rows of the queue and groups of copies in a table for people."""


def curation_figures(found: CurationReport) -> Mapping[str, dg.MetadataValue]:
    """Counts that the UI plots over time, the parts as tables, and a picture of the steps."""
    findings = [{"kind": kind, **one.model_dump()} for kind, one in found.by_finding.items()]
    licences = [{"licence": name, **one.model_dump()} for name, one in found.by_licence.items()]
    return {
        "kept": dg.MetadataValue.int(found.kept),
        "waiting_for_review": dg.MetadataValue.int(len(found.queue)),
        "by_step": _metadata_table(_STEPS, [one.model_dump() for one in found.steps]),
        "by_finding": _metadata_table(_FINDINGS, findings),
        "by_licence": _metadata_table(_LICENCES, licences),
        "review_queue": _metadata_table(_QUEUE, [one.model_dump() for one in found.queue[:_SHOWN]]),
        "steps": funnel_plot([("verified", found.verified), *((one.step, one.left) for one in found.steps)]),
    }


def curation_tables(found: CurationReport) -> "list[Table]":
    """The report for people; no empty table."""
    from rich.table import Table

    steps = Table("step", "came", "excluded", "left", title="by step")
    for step in found.steps:
        steps.add_row(step.step, str(step.came), str(step.excluded), str(step.left))
    findings = Table("kind", "attempts", "replaced", "planted, stays", title="scrubbed in what is kept")
    for kind, one in found.by_finding.items():
        findings.add_row(visible(kind), str(one.rows), str(one.replaced), str(one.planted))
    licences = Table("licence", "verified", "kept", title="by licence")
    for name, count in found.by_licence.items():
        licences.add_row(visible(name), str(count.verified), str(count.kept))
    queue = Table("attempt", "task of the benchmark", "why", title="waiting for a review")
    for waiting in found.queue[:_SHOWN]:
        queue.add_row(visible(waiting.trajectory_id), visible(waiting.task or ""), visible(waiting.reason))
    copies = Table("kept", "copies", title="largest groups of copies")
    for group in found.copies[:_SHOWN]:
        copies.add_row(visible(group.kept), str(group.copies))
    return [table for table in (steps, findings, licences, queue, copies) if table.row_count]


def curation_remarks(found: CurationReport) -> list[str]:
    """What no table says."""
    remarks = [f"{found.kept} of {found.verified} verified attempts are kept; rules {found.rules}"]
    if len(found.queue) > _SHOWN:
        remarks.append(f"{len(found.queue)} attempts wait for a review; --json names all")
    remarks += [
        f"{version} still holds {rows} rows of denied repositories; published versions are never changed"
        for version, rows in found.denied_in_published.items()
    ]
    return remarks


def _metadata_table(
    columns: Mapping[str, str], rows: Sequence[Mapping[str, str | int | float | bool | None]]
) -> dg.MetadataValue:
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows], schema)
