"""Pictures of counts and shares as PNG, the same bytes for the same numbers.

Names may say anything: they are cut, never read as mathematics, and what the font does not have becomes a box.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pipeline.dataset_card.content import percent
from pipeline.exports.html.marks import visible_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = ("#4F43DD", "#E08A2E")
GREY = "#D9DCE3"
MOST_NAME = 34
"""Characters of a name; of a longer one the middle is left out."""
LOG_FROM = 100
"""Largest count by the smallest one above 0 from which bars are logarithmic."""

_WIDTH = 7.0
_FITTING = 58
"""Characters that have room in a row below the columns of a picture."""
_DPI = 110
_STYLE = {"text.parse_math": False, "font.size": 9.5, "font.family": "DejaVu Sans", "axes.titleweight": "bold"}


def bars(title: str, axis: str, counts: Sequence[tuple[str, int]]) -> bytes:
    """A horizontal bar for each name, in the given order from above."""
    return stacked(title, axis, [name for name, _ in counts], {"": [count for _, count in counts]})


def stacked(title: str, axis: str, names: Sequence[str], series: Mapping[str, Sequence[int]]) -> bytes:
    """A horizontal bar for each name, of one part for each series; more than one have a legend and no logarithm."""
    totals = [sum(counts) for counts in zip(*series.values(), strict=True)]
    logarithmic = len(series) == 1 and _is_wide(totals)

    def draw(axes: Axes) -> None:
        places = range(len(names))
        left = [0] * len(names)
        for colour, (name, counts) in zip(COLOURS, series.items(), strict=False):
            axes.barh(places, counts, left=left, color=colour, height=0.72, label=name)
            left = [before + count for before, count in zip(left, counts, strict=True)]
        if logarithmic:
            axes.set_xscale("log")
            axes.set_xlim(0.5, max(totals) * 8)
        else:
            axes.set_xlim(0, max([*totals, 1]) * 1.18)
        _ticks(axes.xaxis)
        for place, total in zip(places, totals, strict=True):
            start = max(total, 0.5) if logarithmic else total
            axes.annotate(f"{total:,}", (start, place), (4, 0), textcoords="offset points", va="center")
        axes.set_yticks(places, [short(name) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel(f"{axis} (logarithmic)" if logarithmic else axis)
        if len(series) > 1:
            axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(series), borderaxespad=0)

    return _drawn(title, 0.32 * len(names) + 1.1, draw)


def columns(title: str, across: str, up: str, counts: Sequence[tuple[str, int]]) -> bytes:
    """A column for each bin, from left to right."""
    numbers = [count for _, count in counts]
    many = max(len(f"{count:,}") for count in [0, *numbers]) * len(counts) > _FITTING
    logarithmic = _is_wide(numbers)

    def draw(axes: Axes) -> None:
        places = range(len(counts))
        axes.bar(places, numbers, color=COLOURS[0], width=0.86)
        if logarithmic:
            axes.set_yscale("log")
            axes.set_ylim(0.5, max(numbers) * (20 if many else 3))
        else:
            axes.set_ylim(0, max([*numbers, 1]) * (1.3 if many else 1.12))
        _ticks(axes.yaxis)
        for place, count in zip(places, numbers, strict=True):
            if count:
                label = axes.annotate(f"{count:,}", (place, count), (0, 3), textcoords="offset points", ha="center")
                label.set(fontsize=8, rotation=90 if many else 0)
        names = [name for name, _ in counts]
        long = max(map(len, names), default=0) * len(names) > _FITTING
        axes.set_xticks(places, names, rotation=40 if long else 0, ha="right" if long else "center")
        if long:
            for below in axes.get_xticklabels():
                below.set_rotation_mode("anchor")
        axes.set_xlabel(across)
        axes.set_ylabel(f"{up} (logarithmic)" if logarithmic else up)

    return _drawn(title, 3.4, draw)


def shares(title: str, axis: str, parts: Sequence[tuple[str, int, int]]) -> bytes:
    """How much of the whole each part is: (name, part, whole), from 0 to 100 %."""

    def draw(axes: Axes) -> None:
        places = range(len(parts))
        axes.barh(places, [100 if whole else 0 for _, _, whole in parts], color=GREY, height=0.72)
        rates = [100 * part / whole if whole else 0 for _, part, whole in parts]
        axes.barh(places, rates, color=COLOURS[0], height=0.72)
        for place, (_, part, whole) in zip(places, parts, strict=True):
            text = f"{part:,} of {whole:,} ({percent(part, whole)})" if whole else "none"
            axes.annotate(text, (100, place), (5, 0), textcoords="offset points", va="center")
        axes.set_xlim(0, 170)
        axes.spines["bottom"].set_bounds(0, 100)
        axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.set_yticks(places, [short(name) for name, _, _ in parts])
        axes.invert_yaxis()
        axes.set_xlabel(axis, x=50 / 170)

    return _drawn(title, 0.32 * len(parts) + 1.1, draw)


def short(name: str) -> str:
    """A name for a picture: in one line, with nothing hidden, its middle left out when it is long."""
    text = visible_text(re.sub(r"\s+", " ", name)) or "(empty)"
    if len(text) > MOST_NAME:
        text = f"{text[: MOST_NAME * 2 // 3]}…{text[-MOST_NAME // 3 + 1 :]}"
    return "".join(one if ord(one) in _glyphs() else "□" for one in text)


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def _is_wide(counts: Sequence[int]) -> bool:
    some = [count for count in counts if count > 0]
    return bool(some) and max(some) >= LOG_FROM * min(some)


def _ticks(axis: Axis) -> None:
    """Whole numbers with commas: counts have nothing between."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 or value == 0 else ""))
    if axis.get_scale() == "log":
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _drawn(title: str, height: float, draw: Callable[[Axes], None]) -> bytes:
    from matplotlib import style  # half a second, needed only when a plot is drawn
    from matplotlib.figure import Figure

    with style.context(["default", _STYLE]):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained", dpi=_DPI)
        axes = figure.subplots()
        draw(axes)
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        return _png(figure)


def _png(figure: Figure) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    canvas: Any = FigureCanvasAgg(figure)  # its class has no types
    # `savefig` would draw all of it twice. The name of the program that drew would change with every release.
    canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()
