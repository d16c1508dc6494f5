"""Figures as tables, with a picture beside them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dataset_card import plots
from pipeline.dataset_card.content import Block, Cell, Exhibit, Picture, Table, percent
from pipeline.dataset_card.figures import Spread

MOST_ROWS = 20
"""Values that a table of counts lists; the others are one row together."""
UNKNOWN = "not known"


def measured(spread: Spread, title: str, axis: str, path: str) -> Exhibit:
    """How a number is spread over trajectories."""
    bins = [(one.name, one.rows) for one in spread.bins]
    rows: list[tuple[Cell, ...]] = [
        *((f"{name}", count) for name, count in bins),
        ("smallest", spread.least),
        ("median", spread.median),
        ("mean", round(spread.mean, 1)),
        ("90 of 100 have at most", spread.p90),
        ("99 of 100 have at most", spread.p99),
        ("largest", spread.most),
        ("all together", spread.total),
    ]
    if spread.without:
        rows.append(("trajectories without any, not counted above", spread.without))
    picture = Picture(
        path,
        f"Columns: trajectories by {axis}; the numbers are in the table.",
        plots.columns(title, axis, "trajectories", bins),
    )
    return Exhibit(picture, Table(f"{title}: trajectories by {axis}", (axis, "number"), tuple(rows)))


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
    return Exhibit(Picture(path, alt, plots.bars(title, "trajectories", shown)), table)


def policy(agent: str, model: str | None) -> str:
    """What an agent with its model is called."""
    return agent if model is None else f"{agent}, {model}"
