"""Pictures for the metadata of assets, as Markdown; the Dagster UI shows it behind "Show Markdown".

The background is left out and the colours are read on white as well as on black, since the UI has both.
"""

import base64
import datetime
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from pipeline.breakdown import Share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

INK = "#767676"
"""Of text and axes: 4.5:1 against white and 4.6:1 against black."""
GOOD, OTHERS = "#7C74F0", "#B08A3C"

_DAYS = 14
_VERSIONS = 10
_WHOLE_LABELS = 7
"""Days that all get a label; of more, every second one."""


def calibration_plot(points: Sequence[tuple[float, float, int]]) -> dg.MetadataValue:
    """What was foretold against what came, for groups of (foretold, came, number), with the diagonal."""
    figure, axes = _figure(4, 4)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1)
    axes.plot([foretold for foretold, _, _ in points], [came for _, came, _ in points], "o-", color=GOOD)
    for foretold, came, number in points:
        axes.annotate(str(number), (foretold, came), textcoords="offset points", xytext=(6, -10), color=INK)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("foretold")
    axes.set_ylabel("came")
    return _inline(figure, "calibration")


def funnel_plot(stages: Sequence[tuple[str, int]]) -> dg.MetadataValue:
    """A horizontal bar per stage, in the order of the stages."""
    return _bars(stages, "funnel")


def rows_plot(versions: Sequence[tuple[str, int]]) -> dg.MetadataValue:
    """A horizontal bar for the rows of each of the newest versions, which come last in `versions`."""
    return _bars(versions[-_VERSIONS:], "rows")


def trend_plot(by_day: Mapping[datetime.date, Share], good: str, what: str) -> dg.MetadataValue:
    """Items by the day they were settled on, good ones below the others; the share of good ones above each bar."""
    newest = sorted(by_day)[-_DAYS:]
    shares = [by_day[day] for day in newest]
    places = range(len(newest))
    figure, axes = _figure(6, 2.8)
    axes.bar(places, [one.good for one in shares], 0.7, color=GOOD, label=good)
    rest = [one.items - one.good for one in shares]
    bars = axes.bar(places, rest, 0.7, bottom=[one.good for one in shares], color=OTHERS, label="others")
    axes.bar_label(bars, labels=[f"{one.rate:.0%}" for one in shares], padding=3, color=INK, fontsize=9)
    every = 1 if len(newest) <= _WHOLE_LABELS else 2
    axes.set_xticks(places[::every], [f"{day:%b} {day.day}" for day in newest[::every]])
    axes.set_xlim(-0.6, max(len(newest), 4) - 0.4)
    axes.set_ylim(0, max([one.items for one in shares], default=1) * 1.15)
    axes.yaxis.set_major_locator(_whole_numbers())
    axes.set_xlabel("day (UTC)")
    axes.set_ylabel(what)
    axes.legend(frameon=False, labelcolor=INK, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    return _inline(figure, "trend")


def write_rates_plot(lines: Mapping[str, Sequence[tuple[int, float, float, float]]], path: Path) -> None:
    """A line with its interval for each name, of points (k, rate, low, high), as a PNG on white."""
    figure, axes = _figure(5, 3.4)
    for name, points in lines.items():
        ks, rates, lows, highs = zip(*points, strict=True)
        (line,) = axes.plot(ks, rates, "o-", markersize=4, label=name)
        axes.fill_between(ks, lows, highs, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(_whole_numbers())
    axes.set_xlabel("k")
    axes.set_ylabel("pass@k, 95 % interval")
    axes.legend(frameon=False, labelcolor=INK, loc="upper left")
    figure.savefig(path, format="png", dpi=110, bbox_inches="tight")


def write_steps_plot(lines: Mapping[str, Sequence[tuple[int, float]]], what: str, path: Path) -> None:
    """A line for each name, of points (step, value), as a PNG on white; `what` names the values."""
    figure, axes = _figure(5, 3.4)
    for name, points in lines.items():
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, label=name)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(_whole_numbers())
    axes.set_xlabel("step")
    axes.set_ylabel(what)
    axes.legend(frameon=False, labelcolor=INK, loc="upper left")
    figure.savefig(path, format="png", dpi=110, bbox_inches="tight")


def loss_plot(training: Sequence[tuple[float, float]], validation: Sequence[tuple[float, float]]) -> dg.MetadataValue:
    """Loss over steps, nats a token: a line for training, marks for each look at the validation rows."""
    figure, axes = _figure(6, 2.8)
    axes.plot([step for step, _ in training], [loss for _, loss in training], color=GOOD, label="training")
    if validation:
        axes.plot(
            [step for step, _ in validation], [loss for _, loss in validation], "o-", color=OTHERS, label="validation"
        )
    axes.xaxis.set_major_locator(_whole_numbers())
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats a token)")
    axes.legend(frameon=False, labelcolor=INK)
    return _inline(figure, "loss")


def _bars(parts: Sequence[tuple[str, int]], name: str) -> dg.MetadataValue:
    figure, axes = _figure(6, 0.45 * len(parts) + 0.4)
    counts = [count for _, count in parts]
    bars = axes.barh([part for part, _ in parts], counts, color=GOOD)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=3, color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, max([*counts, 1]) * 1.15)
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks([])
    return _inline(figure, name)


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """With axes at the left and below, in INK."""
    from matplotlib.figure import Figure  # half a second, needed only when a plot is drawn

    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    return figure, axes


def _whole_numbers() -> "Locator":
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4, integer=True)


def _inline(figure: "Figure", name: str) -> dg.MetadataValue:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight", transparent=True)
    return dg.MetadataValue.md(f"![{name}](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})")
