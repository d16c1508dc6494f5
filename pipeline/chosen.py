"""Which instances are rolled out, rated and published: admitted, no near copy, and not too near to a benchmark."""

from __future__ import annotations

from pipeline.schemas import Row, to_rows
from pipeline.tables import Store


def chosen_rows(store: Store) -> list[Row]:
    """Rows of the table instances, each instance once, sorted by its id. Raises TableDamaged."""
    selected = {row["instance_id"] for row in to_rows(store.current("selections")) if row["selected"]}
    dropped = {row["instance_id"] for row in to_rows(store.current("contaminations")) if row["decision"] == "drop"}
    good = selected - dropped
    # Made again by another version of a pack, a task that is the same has the same id.
    rows = {str(row["instance_id"]): row for row in to_rows(store.current("instances")) if row["admitted"]}
    return [rows[instance_id] for instance_id in sorted(rows) if instance_id in good]
