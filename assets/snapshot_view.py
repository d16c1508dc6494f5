"""A look at a published version with DuckDB: what `touchstone run` and the snapshot asset show."""

from pathlib import Path

import dagster as dg
import duckdb

QUERY = """SELECT language, count(*) AS verified, count(DISTINCT full_name) AS repositories,
       round(avg(n_turns), 1) AS turns, string_agg(DISTINCT family, ', ' ORDER BY family) AS families
FROM snapshot GROUP BY language ORDER BY verified DESC, language"""


def query_snapshot(path: Path) -> tuple[list[str], list[tuple[object, ...]]]:
    """Column names and rows of QUERY over the Parquet files of one version."""
    files = sorted(str(file) for file in (path / "data").glob("*.parquet"))
    with duckdb.connect() as connection:
        connection.from_parquet(files).create_view("snapshot")
        result = connection.execute(QUERY)
        columns = [column[0] for column in result.description or ()]
        return columns, result.fetchall()


def query_markdown(path: Path) -> dg.MetadataValue:
    """The same as a Markdown table, for the metadata of the snapshot asset."""
    columns, rows = query_snapshot(path)
    lines = [columns, ["---"] * len(columns), *rows]
    return dg.MetadataValue.md("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines))
