"""What names a row of a version: one column, or several where an attempt has more than one row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

ID = "trajectory_id"
"""Column of ids.parquet and excluded.parquet that names a row, whatever the columns of its key are called."""
KEY = (ID,)
"""Key of a version that says nothing of it."""
BETWEEN = "/"
"""Stands between the values of the key in the name of a row."""


def identities(rows: pa.Table, key: Sequence[str]) -> pa.ChunkedArray:
    """The name of each row: the values of its key columns, joined.

    Raises ValueError for a key column that the rows lack, and for a key of several columns with a null.
    """
    if missing := [name for name in key if name not in rows.column_names]:
        raise ValueError(f"rows are to be named by {', '.join(key)}, and have no column {', '.join(missing)}")
    columns = [rows.column(name).cast(pa.string()) for name in key]
    if len(columns) == 1:
        return columns[0]
    names = pc.binary_join_element_wise(*columns, BETWEEN)
    if names.null_count:
        raise ValueError(f"a row without a whole key ({', '.join(key)})")
    return names


def named(key: Sequence[str]) -> str:
    """The same in SQL of DuckDB."""
    quoted = [f'"{name}"' for name in key]
    return quoted[0] if len(quoted) == 1 else f"concat_ws('{BETWEEN}', {', '.join(quoted)})"
