"""What a stage's asset shows in the Dagster UI: counts, yield, seconds, a preview, a plot."""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.plots import funnel_plot
from pipeline.batch import StageReport
from pipeline.schemas import Row

_PREVIEW_ROWS = 10
_CELL_CHARACTERS = 160


def stage_metadata(
    report: StageReport, funnel: Sequence[tuple[str, int]], preview: Sequence[Row], columns: Sequence[str]
) -> Mapping[str, dg.MetadataValue]:
    """Aggregates only: one event per partition carries them, however many items there are."""
    return {
        "dagster/row_count": dg.MetadataValue.int(report.total),
        "done": dg.MetadataValue.int(report.done),
        "yield": dg.MetadataValue.float(round(report.done / report.total, 4) if report.total else 0.0),
        "failed": dg.MetadataValue.json(report.failed),
        "settled_before": dg.MetadataValue.int(report.skipped),
        "seconds": dg.MetadataValue.float(round(report.seconds, 2)),
        "preview": preview_table(preview, columns),
        "funnel": funnel_plot(funnel),
    }


def preview_table(rows: Sequence[Row], columns: Sequence[str]) -> dg.MetadataValue:
    """The first rows as Markdown; text of repositories cannot leave its cell."""
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(_cell(row.get(column)) for column in columns) for row in rows[:_PREVIEW_ROWS]]
    return dg.MetadataValue.md("\n".join(f"| {line} |" for line in lines))


def _cell(value: object) -> str:
    text = " ".join(str("" if value is None else value).split())[:_CELL_CHARACTERS]
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"&#{ord(character)};")
    return text
