"""The columns of tables as Dagster shows them on the page of an asset."""

import dagster as dg

from pipeline.column_meanings import meaning
from pipeline.schemas import TABLES, TableSchema


def columns_of(table: str) -> dg.TableSchema:
    """Of a working table."""
    return columns_shown(TABLES[table])


def columns_shown(schema: TableSchema) -> dg.TableSchema:
    """Names, Arrow types, whether null is possible, and what each means."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=field.name,
                type=str(field.type),
                description=meaning(schema.name, field.name) or None,
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in schema.arrow
        ],
        constraints=dg.TableConstraints(other=[f"version {schema.version} of the schema {schema.name}"]),
    )
