"""Pictures for the metadata of assets, as Markdown that the Dagster UI shows inline."""

import base64
import io
from collections.abc import Sequence

import dagster as dg


def funnel_plot(stages: Sequence[tuple[str, int]]) -> dg.MetadataValue:
    """A horizontal bar per stage, widest first."""
    from matplotlib.figure import Figure  # half a second, needed only when a plot is drawn

    figure = Figure(figsize=(6, 0.45 * len(stages) + 0.4))
    axes = figure.subplots()
    names = [name for name, _ in stages]
    counts = [count for _, count in stages]
    bars = axes.barh(names, counts, color="#4F43DD")
    axes.bar_label(bars, padding=3)
    axes.invert_yaxis()
    axes.set_xlim(0, max([*counts, 1]) * 1.12)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return dg.MetadataValue.md(f"![funnel](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})")
