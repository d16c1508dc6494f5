"""The head of a data set card: YAML front matter by which data set hubs and loaders find splits and columns.

Each value is written as JSON, which is YAML too. Not here: the text below the head; who publishes brings it.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Collection, Sequence

import duckdb
import pyarrow as pa

from pipeline.snapshots.publishing import Draft

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

_LICENSES = frozenset(
    {"mit", "apache-2.0", "bsd-2-clause", "bsd-3-clause", "isc", "zlib", "unlicense", "cc0-1.0", "mpl-2.0", "0bsd"}
)
"""Identifiers a hub takes; any other licence is `other` there, and its SPDX id stands in the rows."""


_TAGS = ("agents", "terminal", "trajectories", "verified")


def front_matter(draft: Draft, tags: Sequence[str] = _TAGS, licenses: Collection[str] = ()) -> str:
    """The head, with its `---` lines. Loaders find the files of each split by it.

    `licenses` are the SPDX ids of what rows quote, for rows that do not say so themselves.
    """
    rows: dict[str, int] = {}
    for file in draft.files:
        rows[str(file.split)] = rows.get(str(file.split), 0) + (file.rows or 0)
    data_files = [{"split": split, "path": f"data/{split}-*.parquet"} for split in sorted(rows)]
    values: dict[str, object] = {
        "pretty_name": draft.name,
        "license": _known(licenses) if licenses else _licenses(draft),
        "language": ["en", "code"],
        "tags": list(tags),
        "task_categories": ["text-generation"],
        "size_categories": [next((label for limit, label in _SIZES if draft.rows < limit), "n>1M")],
        "configs": [{"config_name": "default", "data_files": data_files}],
        "dataset_info": {
            "features": _features(list(draft.schema)),
            "splits": [
                {"name": split, "num_bytes": draft.bytes_by_split[split], "num_examples": rows[split]}
                for split in sorted(rows)
            ],
            "download_size": sum(file.bytes for file in draft.files),
            "dataset_size": sum(draft.bytes_by_split.values()),
        },
    }
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(["---", *lines, "---", ""])


def _licenses(draft: Draft) -> list[str]:
    if "license" not in draft.schema.names:
        return ["other"]
    # DuckDB takes a path for a pattern.
    files = [glob.escape(str(draft.folder / file.path)) for file in draft.files]
    query = "SELECT DISTINCT lower(coalesce(license, 'none')) FROM read_parquet(?, hive_partitioning = false)"
    with duckdb.connect() as connection:
        found = connection.execute(query, [files]).fetchall()
    return _known([license for (license,) in found])


def _known(licenses: Collection[str]) -> list[str]:
    return sorted({name.lower() if name.lower() in _LICENSES else "other" for name in licenses})


def _features(fields: Sequence[pa.Field]) -> list[dict[str, object]]:
    return [{"name": field.name, **_feature(field.type)} for field in fields]


def _feature(kind: pa.DataType) -> dict[str, object]:
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return {"list": inner.get("dtype", inner.get("struct", inner))}
    if pa.types.is_struct(kind):
        return {"struct": _features([kind.field(i) for i in range(kind.num_fields)])}
    names = {pa.float64(): "float64", pa.float32(): "float32"}
    return {"dtype": names.get(kind, str(kind))}
