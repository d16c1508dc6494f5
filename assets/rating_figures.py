"""Quality scores as metadata of the asset ratings. By score of the repository they are in `report quality`."""

from collections.abc import Mapping

import dagster as dg
import pyarrow.compute as pc

from pipeline.quality.ratings import DIMENSIONS
from pipeline.tables import Store


def rating_figures(store: Store) -> Mapping[str, dg.MetadataValue]:
    """Mean scores, 1 to 5, by what kind of rater gave them; no table without ratings."""
    rows = store.current("ratings", ["instance_id", "kind", *DIMENSIONS])
    rated = rows.filter(pc.is_valid(rows.column(DIMENSIONS[0]))).group_by("kind")
    means = rated.aggregate([("instance_id", "count_distinct"), *((name, "mean") for name in DIMENSIONS)])
    columns: dict[str, str] = {"by": "string", "tasks": "int"} | {name: "float" for name in DIMENSIONS}
    records = [
        dg.TableRecord(
            {"by": row["kind"], "tasks": row["instance_id_count_distinct"]}
            | {name: round(row[f"{name}_mean"], 2) for name in DIMENSIONS}
        )
        for row in means.to_pylist()
    ]
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in columns.items()])
    return {"mean_scores": dg.MetadataValue.table(records, schema)} if records else {}
