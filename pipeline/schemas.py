"""One explicit Arrow schema per table, each with a version, and the way of a row into it and out of it.

A column type, a column name or the meaning of a column changes only together with the version of its table.
Every column may be null: the row of a failed item carries little more than its key and its reason.
Free-form values are JSON text and mappings are lists of key/value pairs, since readers of data sets refuse maps.

Not here: where rows are kept (tables.py, snapshots.py) and how the nouns of types.py become rows (rows.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pipeline import columns
from pipeline.columns import BATCH_COLUMNS, JSON_COLUMNS
from pipeline.errors import PipelineError

Row = dict[str, object]


class RowInvalid(PipelineError):
    """A row does not fit its table. The text names the table and the column."""


@dataclass(frozen=True)
class TableSchema:
    """What a table holds."""

    name: str
    version: int
    arrow: pa.Schema
    """All columns, those of the batch included."""
    rows_per_group: int = 10_000
    """Largest Parquet row group: a group whose texts exceed 2 GiB cannot be read back."""

    def of(self, columns: Sequence[str] | None) -> TableSchema:
        """The same with these columns only, in that order. Raises RowInvalid for one that it does not have."""
        if columns is None:
            return self
        if unknown := sorted(set(columns) - set(self.arrow.names)):
            raise RowInvalid(f"table {self.name} has no column {', '.join(map(repr, unknown))}")
        return replace(self, arrow=pa.schema([self.arrow.field(name) for name in columns]))


def _working(name: str, version: int, own: Mapping[str, pa.DataType], rows_per_group: int = 10_000) -> TableSchema:
    return TableSchema(name, version, pa.schema(list({**own, **BATCH_COLUMNS}.items())), rows_per_group)


TABLES: dict[str, TableSchema] = {
    schema.name: schema
    for schema in (
        _working("listings", 1, columns.LISTINGS),
        _working("repositories", 2, columns.REPOSITORIES),
        _working("contexts", 1, columns.CONTEXTS),
        _working("scores", 2, columns.SCORES),
        _working("image_builds", 2, columns.IMAGE_BUILDS, 1_000),
        _working("instances", 2, columns.INSTANCES, 1_000),
        _working("selections", 1, columns.SELECTIONS),
        _working("contaminations", 1, columns.CONTAMINATIONS),
        _working("ratings", 1, columns.RATINGS),
        _working("trajectories", 3, columns.TRAJECTORIES, 100),
        _working("verifications", 2, columns.VERIFICATIONS, 1_000),
        _working("judgements", 1, columns.JUDGEMENTS),
        _working("replays", 1, columns.REPLAYS),
        _working("curations", 1, columns.CURATIONS),
        _working("annotations", 1, columns.ANNOTATIONS, 1_000),
    )
}
"""The working tables, by name."""

TERMINAL = TableSchema("terminal", 3, pa.schema(list(columns.TERMINAL.items())), 100)
"""The published data set: one row is one verified trajectory with its instance and its repository."""

RUN_DEPENDENT = frozenset(
    {"seconds", "recorded_at", "retrieved_at", "attempt", "cached", "log_tail", "state_reference", "n_repeats"}
)
"""Columns, nested ones too, that differ between two runs over the same input. All others are in the content hash."""


def table_schema(name: str) -> TableSchema:
    """The schema of a working table. Raises RowInvalid for a name that is none."""
    if name not in TABLES:
        raise RowInvalid(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    return TABLES[name]


def clean_text(text: str) -> str:
    """`text` as valid Unicode: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_arrow(schema: TableSchema, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Rows as one Arrow table; a missing column is null. Raises RowInvalid naming the column that does not fit."""
    known = set(schema.arrow.names)
    for row in rows:
        if unknown := sorted(set(row) - known):
            raise RowInvalid(f"table {schema.name} has no column {', '.join(map(repr, unknown))}")
    return pa.Table.from_arrays(
        [_column(schema.name, field, [row.get(field.name) for row in rows]) for field in schema.arrow],
        schema=schema.arrow,
    )


def _column(table: str, field: pa.Field, values: list[object]) -> pa.Array | pa.ChunkedArray:
    place = f"table {table}, column {field.name!r}"
    cells = [_cell(value, field, place) for value in values]
    try:
        return pa.array(cells, type=field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise RowInvalid(f"{place}: {error}; expected {field.type}") from error


def _cell(value: object, field: pa.Field, place: str) -> object:
    """`value` as Arrow takes it, with clean text; what Arrow would drop without a word is refused."""
    kind = field.type
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        if field.name in JSON_COLUMNS:
            return clean_text(canonical_json(value))
        if pa.types.is_struct(kind):
            return _struct(value, kind, place)
        if kind in (columns.PAIRS, columns.NUMBERS):
            pairs = [{"key": key, "value": value[key]} for key in sorted(value)]
            return [_struct(pair, kind.value_type, place) for pair in pairs]
    if isinstance(value, list | tuple) and pa.types.is_list(kind):
        return [_cell(entry, kind.value_field, place) for entry in value]
    return value


def _struct(value: Mapping[str, object], kind: pa.StructType, place: str) -> dict[str, object]:
    fields = {kind.field(i).name: kind.field(i) for i in range(kind.num_fields)}
    if unknown := sorted(set(value) - set(fields)):
        raise RowInvalid(f"{place} has no field {', '.join(map(repr, unknown))}")
    return {name: _cell(value.get(name), field, place) for name, field in fields.items()}


def to_rows(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table as dictionaries, nulls included."""
    rows: list[Row] = table.to_pylist()
    return rows


def adapt(schema: TableSchema, table: pa.Table) -> pa.Table:
    """A table written with an older version, in today's columns: those it lacks are null.

    Raises RowInvalid for a column this version does not know or cannot convert: newer code wrote it.
    """
    if unknown := sorted(set(table.column_names) - set(schema.arrow.names)):
        raise RowInvalid(
            f"table {schema.name} holds {', '.join(map(repr, unknown))}, unknown to version {schema.version}"
        )
    columns = []
    for field in schema.arrow:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowException as error:
            raise RowInvalid(f"table {schema.name}, column {field.name!r}: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def canonical_json(value: object) -> str:
    """JSON that is equal for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def content_sha256(tables: Iterable[pa.Table | pa.RecordBatch]) -> str:
    """Hash of the rows as a bag: neither their order, nor their division into tables, nor RUN_DEPENDENT is in it."""
    digests = sorted(
        hashlib.sha256(canonical_json(_lasting(row)).encode()).digest()
        for table in tables
        for batch in (table.to_batches(max_chunksize=1_000) if isinstance(table, pa.Table) else [table])
        for row in batch.to_pylist()
    )
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _lasting(value: object) -> object:
    if isinstance(value, dict):
        return {key: _lasting(entry) for key, entry in value.items() if key not in RUN_DEPENDENT}
    if isinstance(value, list):
        return [_lasting(entry) for entry in value]
    return value


def schema_sha256(schema: pa.Schema) -> str:
    """Hash of names and types of the columns, in order."""
    return hashlib.sha256("\n".join(f"{field.name}: {_type_text(field.type)}" for field in schema).encode()).hexdigest()


def _type_text(kind: pa.DataType) -> str:
    """A type in words, without the name of a list's items: a Parquet file gives that back changed."""
    if pa.types.is_list(kind):
        return f"list<{_type_text(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return f"struct<{', '.join(f'{field.name}: {_type_text(field.type)}' for field in fields)}>"
    return str(kind)
