"""How much of what a stage settled is good, as metadata of its asset: a trend, and a table of each part."""

from collections.abc import Mapping

import dagster as dg

from assets.plots import trend_plot
from pipeline.breakdown import Breakdown, Share

_SHOWN = 20
"""Rows of a table; there are sixteen streams."""


def breakdown_figures(found: Breakdown, what: str) -> Mapping[str, dg.MetadataValue]:
    """`what` names the items of the asset; a part without items has no table, and no day no trend."""
    trend = {"trend": trend_plot(found.by_day, found.good, what)} if found.by_day else {}
    return trend | {f"by_{name}": _table(found.good, parts) for name, parts in found.by_part.items() if parts}


def _table(good: str, parts: Mapping[str, Share]) -> dg.MetadataValue:
    columns = {"part": "string", "items": "int", good: "int", "rate": "float"}
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    records = [
        dg.TableRecord({"part": name, "items": one.items, good: one.good, "rate": one.rate})
        for name, one in list(parts.items())[:_SHOWN]
    ]
    return dg.MetadataValue.table(records, schema)
