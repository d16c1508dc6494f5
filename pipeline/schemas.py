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
from dataclasses import dataclass

import pyarrow as pa

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


_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
_PAIRS = pa.list_(pa.struct([("key", _TEXT), ("value", _TEXT)]))
_NUMBERS = pa.list_(pa.struct([("key", _TEXT), ("value", pa.float64())]))
_FILES = pa.list_(pa.struct([("path", _TEXT), ("content", _TEXT)]))
_GATES = pa.list_(pa.struct([("gate", _TEXT), ("passed", pa.bool_()), ("evidence", _TEXT)]))
_VARIANTS = pa.list_(pa.struct([("name", _TEXT), ("commands", _TEXTS)]))
_TESTS = pa.list_(pa.struct([("test_id", _TEXT), ("outcome", _TEXT), ("message", _TEXT)]))
_MESSAGES = pa.list_(pa.struct([("role", _TEXT), ("content", _TEXT)]))
_CHANGES = pa.list_(
    pa.struct(
        [
            ("path", _TEXT),
            ("kind", _TEXT),
            ("type", _TEXT),
            ("sha256", _TEXT),
            ("size", pa.int64()),
            ("mode", pa.int64()),
        ]
    )
)
_STEPS = pa.list_(
    pa.struct(
        [
            ("index", pa.int64()),
            ("observation", _TEXT),
            ("thought", _TEXT),
            ("action", _TEXT),
            ("exit_code", pa.int64()),
            ("seconds", pa.float64()),
            ("tokens", pa.int64()),
            ("extra", _TEXT),
        ]
    )
)

JSON_COLUMNS = frozenset({"details", "extra", "sampling"})
"""Columns, nested ones too, that hold canonical JSON; a mapping given for one is written as such."""

BATCH_COLUMNS: dict[str, pa.DataType] = {
    "item_key": _TEXT,
    "attempt": pa.int64(),
    "failure_class": _TEXT,
    "reason": _TEXT,
    "recorded_at": pa.timestamp("us", tz="UTC"),
}
"""What batch.py adds to every row. `failure_class` and `reason` may be given by the stage, row by row."""

_REPOSITORY: dict[str, pa.DataType] = {
    "repository_id": _TEXT,
    "source": _TEXT,
    "full_name": _TEXT,
    "commit": _TEXT,
    "language": _TEXT,
    "locator": _TEXT,
    "archive_sha256": _TEXT,
}

_LISTINGS: dict[str, pa.DataType] = {"day": _TEXT, "stream": _TEXT, **_REPOSITORY}

_REPOSITORIES: dict[str, pa.DataType] = {
    **_REPOSITORY,
    "tree_sha256": _TEXT,
    "n_files": pa.int64(),
    "n_bytes": pa.int64(),
    "license": _TEXT,
    "license_path": _TEXT,
    "license_sha256": _TEXT,
    "warnings": _TEXTS,
}

_CONTEXTS: dict[str, pa.DataType] = {
    "context_id": _TEXT,
    "repository_id": _TEXT,
    "domain": _TEXT,
    "name": _TEXT,
    "path": _TEXT,
    "license": _TEXT,
    "license_path": _TEXT,
    "license_sha256": _TEXT,
    "origin": _TEXT,
    "ecosystem": _TEXT,
    "package": _TEXT,
    "version": _TEXT,
    "file": _TEXT,
    "sha256": _TEXT,
    "n_bytes": pa.int64(),
    "retrieved_at": pa.timestamp("us", tz="UTC"),
}

_SCORES: dict[str, pa.DataType] = {
    "repository_id": _TEXT,
    "scorer": _TEXT,
    "score": pa.float64(),
    "kept": pa.bool_(),
    "features": _NUMBERS,
}

_IMAGE_BUILDS: dict[str, pa.DataType] = {
    "repository_id": _TEXT,
    "strategy": _TEXT,
    "dockerfile": _TEXT,
    "dockerfile_sha256": _TEXT,
    "status": _TEXT,
    "image_digest": _TEXT,
    "base_substituted": pa.bool_(),
    "seconds": pa.float64(),
    "cached": pa.bool_(),
    "log_tail": _TEXT,
    "size_bytes": pa.int64(),
    "repairs": _TEXTS,
    "platform": _TEXT,
    "builder": _TEXT,
    "hosts": _TEXTS,
    "registry_reference": _TEXT,
    "smoke_ok": pa.bool_(),
    "smoke_command": _TEXT,
    "smoke_log": _TEXT,
    "tests_ok": pa.bool_(),
    "tests_command": _TEXT,
    "tests_log": _TEXT,
    "check_seconds": pa.float64(),
}

_INSTANCES: dict[str, pa.DataType] = {
    "instance_id": _TEXT,
    "repository_id": _TEXT,
    "image_digest": _TEXT,
    "instruction": _TEXT,
    "solution": _TEXTS,
    "verifier_kind": _TEXT,
    "verifier_files": _FILES,
    "verifier_command": _TEXT,
    "verifier_timeout_s": pa.int64(),
    "verifier_passing_tests": _TEXTS,
    "verifier_sha256": _TEXT,
    "generator": _TEXT,
    "domain": _TEXT,
    "language": _TEXT,
    "family": _TEXT,
    "seed": pa.int64(),
    "difficulty": _TEXT,
    "state_scope": _TEXT,
    "limits_memory_mb": pa.int64(),
    "limits_cpus": pa.float64(),
    "limits_pids": pa.int64(),
    "limits_lifetime_s": pa.int64(),
    "limits_network": _TEXT,
    "context_ids": _TEXTS,
    "provenance": _PAIRS,
    "admitted": pa.bool_(),
    "gates": _GATES,
    "flake_rate": pa.float64(),
    "repository_image_digest": _TEXT,
    "right": _VARIANTS,
    "weak": _VARIANTS,
}

_SELECTIONS: dict[str, pa.DataType] = {
    "instance_id": _TEXT,
    "repository_id": _TEXT,
    "selected": pa.bool_(),
    "near_copy_of": _TEXT,
    "similarity": pa.float64(),
}

_CONTAMINATIONS: dict[str, pa.DataType] = {
    "instance_id": _TEXT,
    "benchmark_sha256": _TEXT,
    "decision": _TEXT,
    "task": _TEXT,
}

_RATINGS: dict[str, pa.DataType] = {
    "instance_id": _TEXT,
    "rater": _TEXT,
    "kind": _TEXT,
    "task_soundness": pa.int64(),
    "evaluability": pa.int64(),
    "information_sufficiency": pa.int64(),
    "behavioural_constrainedness": pa.int64(),
    "remark": _TEXT,
    "provenance": _PAIRS,
}

_TRAJECTORIES: dict[str, pa.DataType] = {
    "trajectory_id": _TEXT,
    "instance_id": _TEXT,
    "agent": _TEXT,
    "model": _TEXT,
    "sampling": _TEXT,
    "sample": pa.int64(),
    "steps": _STEPS,
    "stop_reason": _TEXT,
    "state_reference": _TEXT,
    "n_turns": pa.int64(),
    "n_tokens": pa.int64(),
    "backend": _TEXT,
    "interface": _TEXT,
    "messages": _MESSAGES,
    "details": _TEXT,
    "changes": _CHANGES,
    "n_prompt_tokens": pa.int64(),
    "cost_usd": pa.float64(),
}

_VERIFICATIONS: dict[str, pa.DataType] = {
    "trajectory_id": _TEXT,
    "outcome": _TEXT,
    "tests": _TESTS,
    "seconds": pa.float64(),
    "integrity": _TEXTS,
    "state_sha256": _TEXT,
    "log_tail": _TEXT,
    "backend": _TEXT,
}

_JUDGEMENTS: dict[str, pa.DataType] = {
    "trajectory_id": _TEXT,
    "model": _TEXT,
    "details": _TEXT,
    "prompt_sha256": _TEXT,
    "outcome": _TEXT,
    "n_prompt_tokens": pa.int64(),
    "n_tokens": pa.int64(),
    "cost_usd": pa.float64(),
    "seconds": pa.float64(),
}

_REPLAYS: dict[str, pa.DataType] = {
    "trajectory_id": _TEXT,
    "number": pa.int64(),
    "recorded": _TEXT,
    "replayed": _TEXT,
    "seconds": pa.float64(),
    "backend": _TEXT,
}

_TERMINAL: dict[str, pa.DataType] = {
    "trajectory_id": _TEXT,
    "instance_id": _TEXT,
    "repository_id": _TEXT,
    "source": _TEXT,
    "full_name": _TEXT,
    "commit": _TEXT,
    "license": _TEXT,
    "license_sha256": _TEXT,
    "language": _TEXT,
    "domain": _TEXT,
    "family": _TEXT,
    "difficulty": _TEXT,
    "instruction": _TEXT,
    "solution": _TEXTS,
    "verifier_files": _FILES,
    "verifier_command": _TEXT,
    "verifier_timeout_s": pa.int64(),
    "verifier_passing_tests": _TEXTS,
    "verifier_sha256": _TEXT,
    "image_digest": _TEXT,
    "agent": _TEXT,
    "model": _TEXT,
    "sampling": _TEXT,
    "sample": pa.int64(),
    "steps": _STEPS,
    "messages": _MESSAGES,
    "n_turns": pa.int64(),
    "n_tokens": pa.int64(),
    "stop_reason": _TEXT,
    "outcome": _TEXT,
    "tests": _TESTS,
    "integrity": _TEXTS,
    "backend": _TEXT,
    "generator": _TEXT,
    "provenance": _PAIRS,
}


def _working(name: str, version: int, columns: Mapping[str, pa.DataType], rows_per_group: int = 10_000) -> TableSchema:
    return TableSchema(name, version, pa.schema(list({**columns, **BATCH_COLUMNS}.items())), rows_per_group)


TABLES: dict[str, TableSchema] = {
    schema.name: schema
    for schema in (
        _working("listings", 1, _LISTINGS),
        _working("repositories", 1, _REPOSITORIES),
        _working("contexts", 1, _CONTEXTS),
        _working("scores", 1, _SCORES),
        _working("image_builds", 2, _IMAGE_BUILDS, 1_000),
        _working("instances", 2, _INSTANCES, 1_000),
        _working("selections", 1, _SELECTIONS),
        _working("contaminations", 1, _CONTAMINATIONS),
        _working("ratings", 1, _RATINGS),
        _working("trajectories", 3, _TRAJECTORIES, 100),
        _working("verifications", 2, _VERIFICATIONS, 1_000),
        _working("judgements", 1, _JUDGEMENTS),
        _working("replays", 1, _REPLAYS),
    )
}
"""The working tables, by name."""

TERMINAL = TableSchema("terminal", 2, pa.schema(list(_TERMINAL.items())), 100)
"""The published data set: one row is one verified trajectory with its instance and its repository."""

RUN_DEPENDENT = frozenset(
    {"seconds", "recorded_at", "retrieved_at", "attempt", "cached", "log_tail", "state_reference"}
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
        if kind in (_PAIRS, _NUMBERS):
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
