"""Figures as tables, with a picture beside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pipeline.dataset_card import plots
from pipeline.dataset_card.content import Block, Cell, Exhibit, Picture, Table, percent
from pipeline.dataset_card.figures import Spread

MOST_ROWS = 20
"""Values that a picture shows; in tables of counts the others are one row together."""
UNKNOWN = "not known"


def measured(spread: Spread, title: str, axis: str, path: str) -> Exhibit:
    """How a number is spread over trajectories."""
    whole = spread.rows + spread.without
    bins = [(one.name, one.rows) for one in spread.bins]
    rows: list[tuple[Cell, ...]] = [(name, count, percent(count, whole)) for name, count in bins]
    if spread.without:
        rows.append(("none", spread.without, percent(spread.without, whole)))
    picture = Picture(
        path,
        f"Columns: trajectories by {axis}; the numbers are in the table.",
        partial(plots.columns, title, axis, "trajectories", bins),
    )
    return Exhibit(picture, Table(f"{title}: trajectories by {axis}", (axis, "trajectories", "share"), tuple(rows)))


def counted(title: str, head: str, path: str | None, counts: Sequence[tuple[str, int]], whole: int) -> Block:
    """Values with their rows, the first ones by name; with a picture where there is a path for it."""
    shown = list(counts[:MOST_ROWS])
    rest = counts[MOST_ROWS:]
    if rest:
        shown.append((f"({len(rest):,} others)", sum(rows for _, rows in rest)))
    table = Table(
        title, (head, "trajectories", "share"), tuple((name, rows, percent(rows, whole)) for name, rows in shown)
    )
    if path is None:
        return table
    alt = f"Bars: trajectories by {head}; the numbers are in the table."
    return Exhibit(Picture(path, alt, partial(plots.bars, title, "trajectories", shown)), table)


def policy(agent: str, model: str | None) -> str:
    """What an agent with its model is called."""
    return agent if model is None else f"{agent}, {model}"
