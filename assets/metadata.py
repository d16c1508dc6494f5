"""What a stage's asset shows in the Dagster UI: counts, yields, plots and a preview of its rows."""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.breakdown_figures import breakdown_figures
from assets.plots import funnel_plot
from assets.viewer_links import attempt_link, viewer_link
from pipeline.batch import StageReport
from pipeline.breakdown import breakdown
from pipeline.funnel import funnel
from pipeline.schemas import Row
from pipeline.tables import Store

_PREVIEW_ROWS = 10
_CELL_CHARACTERS = 60
"""A row of the preview is one line: what does not fit into it is cut."""
_WIDEST_BAR = 12


def stage_metadata(
    report: StageReport, store: Store, table: str, preview: Sequence[Row], columns: Sequence[str]
) -> Mapping[str, dg.MetadataValue]:
    """Aggregates only: one event per partition carries them, however many items there are.

    Counts are of this run's items; funnel, trend and parts are of the whole table `table`.
    """
    stages = funnel(store).stages()
    return {
        "dagster/row_count": dg.MetadataValue.int(report.total),
        "done": dg.MetadataValue.int(report.done),
        "yield": dg.MetadataValue.float(round(report.done / report.total, 4) if report.total else 0.0),
        "failed": dg.MetadataValue.json(report.failed),
        "settled_before": dg.MetadataValue.int(report.skipped),
        "seconds": dg.MetadataValue.float(round(report.seconds, 2)),
        "stages": stage_bars(stages),
        "funnel": funnel_plot(stages),
        **breakdown_figures(breakdown(store, table), table.replace("_", " ")),
        "preview": preview_table(preview, columns),
        **({"viewer": viewer_link(store.root)} if "trajectory_id" in columns else {}),
    }


def stage_bars(stages: Sequence[tuple[str, int]]) -> dg.MetadataValue:
    """The funnel as text, which the UI shows without a click, unlike a picture."""
    widest = max([count for _, count in stages] + [1])
    lines = [f"| {name} | {count:,} | {_bar(count / widest)} |" for name, count in stages]
    return dg.MetadataValue.md("\n".join(["| stage | items | |", "| --- | ---: | --- |", *lines]))


def preview_table(rows: Sequence[Row], columns: Sequence[str]) -> dg.MetadataValue:
    """The first rows as Markdown; text of repositories cannot leave its cell."""
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(_shown(column, row.get(column)) for column in columns) for row in rows[:_PREVIEW_ROWS]]
    return dg.MetadataValue.md("\n".join(f"| {line} |" for line in lines))


def _bar(share: float) -> str:
    eighths = round(share * _WIDEST_BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _shown(column: str, value: object) -> str:
    if column == "trajectory_id" and value is not None:
        return attempt_link(str(value), _cell(value))
    return _cell(value)


def _cell(value: object) -> str:
    if isinstance(value, float):
        value = f"{value:.3g}"
    text = " ".join(str("" if value is None else value).split())
    text = text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"
    for character in "&\\`*_[]<>|":
        text = text.replace(character, f"&#{ord(character)};")
    # In a narrow column the UI would give a sentence a line for each word.
    return text.replace(" ", "&nbsp;")
