"""The verified attempts as decisions see them: facts and hashes from the working tables, without any text.

Only the columns that are named here are read, so that memory does not grow with the texts. What is decided is in
curation/decisions.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.curation.benchmark_overlap import Overlap
from pipeline.curation.copies import Attempted
from pipeline.curation.decisions import Candidate, Context, Curated
from pipeline.curation.decontamination import Contamination
from pipeline.joined_rows import named
from pipeline.schemas import Row, adapt, table_schema, to_rows
from pipeline.tables import Store, readable

CLEAN = Contamination(decision="clean")
UNSEEN = "it was not looked through yet"


@dataclass(frozen=True)
class Looked:
    """Which findings count: those of these rules, against these benchmarks."""

    rules: str
    """Version of the rules and of the scrubber."""
    benchmark_sha256: str | None
    """None without benchmarks."""


def candidates(store: Store, looked: Looked) -> list[Candidate]:
    """Each attempt that passed, sorted by trajectory id. Raises TableDamaged and RowMissing."""
    repositories = _by("repository_id", _current(store, "repositories", _REPOSITORY))
    instances = _by("instance_id", _current(store, "instances", _INSTANCE))
    contexts = {str(row["context_id"]): _context(row) for row in _current(store, "contexts", _CONTEXT)}
    tasks = dict(_contaminations(store, looked.benchmark_sha256))
    attempts = _by("trajectory_id", _current(store, "trajectories", _TRAJECTORY))
    curations = _curations(store, looked, {name: str(row["interface"] or "shell") for name, row in attempts.items()})
    found = []
    for name in sorted(verified_ids(store)):
        attempt = named(attempts, name, "trajectories")
        instance = named(instances, attempt["instance_id"], "instances")
        repository = named(repositories, instance["repository_id"], "repositories")
        seen = curations.get((name, int(str(attempt["attempt"] or 1))), UNSEEN)
        found.append(
            Candidate(
                trajectory_id=name,
                instance_id=str(attempt["instance_id"]),
                source=str(repository["source"]),
                full_name=str(repository["full_name"]),
                license=_text_or_none(repository["license"]),
                no_license="; ".join(_texts(repository["warnings"])),
                contexts=tuple(contexts.get(one, Context(one, None)) for one in _texts(instance["context_ids"])),
                task=tasks.get(str(attempt["instance_id"]), CLEAN),
                curated=seen if isinstance(seen, Curated) else None,
                uncurated="" if isinstance(seen, Curated) else seen,
            )
        )
    return found


def verified_ids(store: Store) -> set[str]:
    """Ids of the trajectories that passed. Raises TableDamaged."""
    rows = _current(store, "verifications", ("trajectory_id", "outcome"))
    return {str(row["trajectory_id"]) for row in rows if row["outcome"] == "passed"}


_REPOSITORY = ("repository_id", "source", "full_name", "license", "warnings")
_INSTANCE = ("instance_id", "repository_id", "context_ids")
_CONTEXT = ("context_id", "name", "license")
_TRAJECTORY = ("trajectory_id", "attempt", "instance_id", "interface")
_CURATION = (
    "trajectory_id",
    "trajectory_attempt",
    "unscrubbable",
    "by_model",
    "n_thoughts",
    "n_turns",
    "commands_sha256",
    "instruction_sha256",
    "commands_signature",
    "instruction_signature",
    "overlaps",
    "reason",
)


def _current(store: Store, table: str, columns: Sequence[str]) -> Iterator[Row]:
    """One after the other: the rows of all need not be held as dictionaries."""
    for batch in store.current(table, columns).to_batches(max_chunksize=1_000):
        yield from batch.to_pylist()


def _curations(store: Store, looked: Looked, interfaces: Mapping[object, str]) -> dict[tuple[str, int], Curated | str]:
    """By trajectory id and number of the attempt: what was found, or why nothing was."""
    shared: dict[bytes, bytes] = {}
    found: dict[tuple[str, int], Curated | str] = {}
    for row in _of_these(store, looked):
        found[str(row["trajectory_id"]), int(str(row["trajectory_attempt"]))] = _seen(row, interfaces, shared)
    return found


def _of_these(store: Store, looked: Looked) -> Iterator[Row]:
    """Rows of these rules a thousand at a time: with the signatures of all rules, a table may not fit into memory."""
    light = store.current("curations", ("item_key", "attempt", "rules", "benchmark_sha256"))
    wanted = {
        (key, attempt)
        for key, attempt, *of in zip(*(column.to_pylist() for column in light.columns), strict=True)
        if of == [looked.rules, looked.benchmark_sha256]
    }
    schema = table_schema("curations").of((*_CURATION, "item_key", "attempt"))
    for path in store.files("curations"):
        with readable("curations"), pq.ParquetFile(path) as file:
            names = [name for name in schema.arrow.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(1_000, columns=names):
                rows = to_rows(adapt(schema, pa.Table.from_batches([batch])))
                yield from (row for row in rows if (row["item_key"], row["attempt"]) in wanted)


def _seen(row: Mapping[str, Any], interfaces: Mapping[object, str], shared: dict[bytes, bytes]) -> Curated | str:
    """`shared` holds each signature of an instruction once: all attempts at a task have the same."""
    if row["commands_sha256"] is None:
        return f"it could not be looked through: {row['reason']}"
    return Curated(
        attempted=Attempted(
            trajectory_id=row["trajectory_id"],
            commands_sha256=row["commands_sha256"],
            instruction_sha256=row["instruction_sha256"],
            commands_signature=row["commands_signature"],
            instruction_signature=shared.setdefault(row["instruction_signature"], row["instruction_signature"]),
            by_model=row["by_model"],
            has_thoughts=row["n_thoughts"] > 0,
            n_turns=row["n_turns"],
            interface=interfaces.get(row["trajectory_id"], "shell"),
        ),
        overlaps=tuple(Overlap.model_validate(overlap) for overlap in row["overlaps"]),
        unscrubbable=row["unscrubbable"] or "",
    )


def _contaminations(store: Store, benchmark_sha256: str | None) -> Iterator[tuple[str, Contamination]]:
    columns = ("instance_id", "benchmark_sha256", "decision", "task", "reason")
    for row in _current(store, "contaminations", columns) if benchmark_sha256 else ():
        if row["benchmark_sha256"] == benchmark_sha256 and row["decision"] is not None:
            yield (
                str(row["instance_id"]),
                Contamination.model_validate({name: row[name] for name in ("decision", "task", "reason")}),
            )


def _context(row: Row) -> Context:
    return Context(str(row["name"]), _text_or_none(row["license"]))


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def _texts(value: object) -> list[str]:
    assert value is None or isinstance(value, list)
    return [str(text) for text in value or ()]


def _by(column: str, rows: Iterator[Row]) -> dict[object, Row]:
    return {row[column]: row for row in rows if row[column] is not None}
