"""A look at a published version with DuckDB: what `touchstone run` and the snapshot asset show."""

from pathlib import Path

import dagster as dg
import duckdb

from pipeline.snapshots import SnapshotDamaged, manifest_of

QUERY = """SELECT language, count(*) AS verified, count(DISTINCT full_name) AS repositories,
       round(avg(n_turns), 1) AS turns, string_agg(DISTINCT family, ', ' ORDER BY family) AS families
FROM snapshot GROUP BY language ORDER BY verified DESC, language"""


def query_snapshot(path: Path) -> tuple[list[str], list[tuple[object, ...]]]:
    """Column names and rows of QUERY over the Parquet files of one version. Raises SnapshotDamaged."""
    files = [str(path / entry.path) for entry in manifest_of(path).files]
    with duckdb.connect() as connection:
        try:
            connection.from_parquet(files).create_view("snapshot")
            result = connection.execute(QUERY)
            return [column[0] for column in result.description or ()], result.fetchall()
        except duckdb.Error as error:
            raise SnapshotDamaged(f"{path} cannot be read: {error}") from error


def query_markdown(path: Path) -> dg.MetadataValue:
    """The same as a Markdown table, for the metadata of the snapshot asset."""
    columns, rows = query_snapshot(path)
    lines = [columns, ["---"] * len(columns), *rows]
    return dg.MetadataValue.md("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines))
