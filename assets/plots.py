"""Pictures for the metadata of assets, as Markdown that the Dagster UI shows inline."""

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calibration_plot(points: Sequence[tuple[float, float, int]]) -> dg.MetadataValue:
    """What was foretold against what came, for groups of (foretold, came, number), with the diagonal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    axes.plot([foretold for foretold, _, _ in points], [came for _, came, _ in points], "o-", color="#4F43DD")
    for foretold, came, number in points:
        axes.annotate(str(number), (foretold, came), textcoords="offset points", xytext=(6, -10))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("foretold")
    axes.set_ylabel("came")
    axes.spines[["top", "right"]].set_visible(False)
    return _inline(figure, "calibration")


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
    return _inline(figure, "funnel")


def _inline(figure: "Figure", name: str) -> dg.MetadataValue:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return dg.MetadataValue.md(f"![{name}](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})")
