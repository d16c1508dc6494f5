"""Which instances are rolled out, rated and published: admitted, no near copy, and not too near to a benchmark."""

from __future__ import annotations

from pipeline.schemas import Row, to_rows
from pipeline.tables import Store


def chosen_rows(store: Store) -> list[Row]:
    """Rows of the table instances. Raises TableDamaged."""
    selected = {row["instance_id"] for row in to_rows(store.current("selections")) if row["selected"]}
    dropped = {row["instance_id"] for row in to_rows(store.current("contaminations")) if row["decision"] == "drop"}
    good = selected - dropped
    return [row for row in to_rows(store.current("instances")) if row["admitted"] and row["instance_id"] in good]
