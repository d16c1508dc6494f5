"""Looks at rows that are in the tables already, and names those that must not be there.

What a stage promises is asked once more of what it wrote, by other code than the stage's own. Each function gives its
faults in words, in order, and an empty list when there are none. Only the columns that are looked at are read.

Not here: whether a stage has a row for each of its items (batch.py), what a version on disk is worth
(snapshots/reading.py), and what follows from a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.schemas import Row, schema_sha256, table_schema, to_rows
from pipeline.tables import Store, readable

IDS: Mapping[str, tuple[str, ...]] = {
    "listings": ("day", "repository_id"),
    "repositories": ("repository_id",),
    "contexts": ("context_id", "repository_id"),
    "scores": ("repository_id", "scorer"),
    # Of its images: a repository has a row for each attempt at one.
    "image_builds": ("repository_id",),
    # Another version of a pack may write a task again: the same task, of another item.
    "instances": ("instance_id", "item_key"),
    "selections": ("instance_id",),
    "contaminations": ("instance_id", "benchmark_sha256"),
    "ratings": ("item_key",),
    "trajectories": ("trajectory_id",),
    "verifications": ("trajectory_id",),
    "judgements": ("trajectory_id", "model", "prompt_sha256"),
    "curations": ("trajectory_id", "trajectory_attempt", "rules", "benchmark_sha256"),
    "annotations": ("trajectory_id", "annotator", "path_sha256"),
}
"""Columns that name a current row of a table; a row without the first of them is that of a failed item."""


class Upstream(NamedTuple):
    """Which rows of which table a row may come from."""

    column: str
    """Has the same value in both."""
    table: str
    told_by: str | None = None
    """Column that tells which rows these are; None for all."""
    values: tuple[object, ...] | None = None
    """Of that column; None for any but null."""


UPSTREAM: Mapping[str, Upstream] = {
    "repositories": Upstream("repository_id", "listings"),
    "scores": Upstream("repository_id", "repositories", "tree_sha256"),
    "image_builds": Upstream("repository_id", "scores", "kept", (True,)),
    "instances": Upstream("repository_id", "image_builds", "smoke_ok", (True,)),
    "selections": Upstream("instance_id", "instances", "admitted", (True,)),
    "ratings": Upstream("instance_id", "instances", "admitted", (True,)),
    "trajectories": Upstream("instance_id", "instances", "admitted", (True,)),
    "verifications": Upstream("trajectory_id", "trajectories"),
    "judgements": Upstream("trajectory_id", "verifications", "outcome", ("passed", "failed")),
    "curations": Upstream("trajectory_id", "verifications", "outcome", ("passed",)),
}
"""By table; a listing comes from a source, and what a domain declares from its own tree."""

GATES = frozenset(
    {
        "verifier_lint",
        "no_solution_text",
        "network_off",
        "noop",
        "oracle",
        "no_answer_in_image",
        "stability",
        "order_independence",
        "time_independence",
        "weak_solutions",
        "other_solutions",
    }
)
"""What an instance has to have passed to be admitted."""

MIN_COMMAND_CHARACTERS = 14
"""Shorter commands are common words of instructions."""


def misfits(store: Store, table: str) -> list[str]:
    """Columns in the files of a table that its schema does not have, or has with another type. Raises TableDamaged."""
    schema, faults = table_schema(table), set()
    for file in store.files(table):
        with readable(table):
            stored = pq.read_schema(file)
        for field in stored:
            if field.name not in schema.arrow.names:
                faults.add(f"{table}.{field.name}: version {schema.version} has no such column")
                continue
            wanted = schema.arrow.field(field.name)
            if schema_sha256(pa.schema([field])) != schema_sha256(pa.schema([wanted])):
                faults.add(f"{table}.{field.name}: {field.type}, version {schema.version} has {wanted.type}")
    return sorted(faults)


def doubles(store: Store, table: str) -> list[str]:
    """Ids that name more than one current row, or more than one usable image of a repository. Raises TableDamaged."""
    ids = list(IDS[table])
    rows = store.current(table, [*ids, "smoke_ok"] if table == "image_builds" else ids)
    if table == "image_builds":
        rows = rows.filter(pc.fill_null(rows["smoke_ok"], False)).select(ids)
    counted = rows.filter(pc.is_valid(rows[ids[0]])).group_by(ids).aggregate([([], "count_all")])
    twice = to_rows(counted.filter(pc.greater(counted["count_all"], 1)))
    return sorted(f"{table}: {' '.join(str(row[i]) for i in ids)} is there {row['count_all']} times" for row in twice)


def orphans(store: Store, table: str) -> list[str]:
    """Rows whose upstream has no row that they may come from. Raises TableDamaged."""
    column, upstream, told_by, values = UPSTREAM[table]
    rows = store.current(upstream, [column, *([told_by] if told_by else [])])
    if told_by is not None:
        told = rows[told_by]
        rows = rows.filter(pc.is_valid(told) if values is None else pc.is_in(told, pa.array(values, told.type)))
    found = store.current(table, [column])[column].unique().drop_null()
    lost = found.filter(pc.invert(pc.is_in(found, rows[column].combine_chunks())))
    return [f"{table}: {key} comes from no row of {upstream}" for key in sorted(map(str, lost.to_pylist()))]


def unproven(store: Store) -> list[str]:
    """Admitted instances whose row does not say that every gate was passed. Raises TableDamaged."""
    faults = []
    for row in _where(store.current("instances", ["instance_id", "admitted", "gates"]), "admitted", True):
        said = {gate["gate"]: gate["passed"] for gate in _entries(row["gates"])}
        lacking = sorted(GATES - set(map(str, said)))
        failed = sorted(str(name) for name, passed in said.items() if not passed)
        if lacking or failed:
            faults.append(f"{row['instance_id']}: failed {failed}, not asked {lacking}")
    return sorted(faults)


def told_solutions(store: Store) -> list[str]:
    """Admitted instances whose instruction has a whole step of the solution in it, or one of its command lines.

    Text that a step writes to a file (a here-document) may be what the instruction gives. Raises TableDamaged.
    """
    columns = ["instance_id", "admitted", "instruction", "solution"]
    return sorted(
        f"{row['instance_id']}: the instruction says {told[:120]!r}"
        for row in _where(store.current("instances", columns), "admitted", True)
        if (told := told_step(str(row["instruction"]), [str(step) for step in _entries(row["solution"])]))
    )


def told_step(instruction: str, solution: Sequence[str]) -> str:
    """What of a solution stands in an instruction, whatever its case, quotation marks and spaces; empty for nothing."""
    said = _plain(instruction)
    for step in solution:
        for text in (step, *step.split("<<", 1)[0].split("\n")):
            plain = _plain(text)
            if len(plain) >= MIN_COMMAND_CHARACTERS and " " in plain and plain in said:
                return plain
    return ""


def unearned(store: Store) -> list[str]:
    """Verdicts `passed` whose tests do not say so: none ran, one was skipped or failed, or they are not those of
    admission. Raises TableDamaged."""
    verdicts = store.current("verifications", ["trajectory_id", "outcome", "tests"])
    instance_of = {
        row["trajectory_id"]: row["instance_id"]
        for row in to_rows(store.current("trajectories", ["trajectory_id", "instance_id"]))
    }
    proven = store.current("instances", ["instance_id", "admitted", "verifier_passing_tests"])
    expected = {
        row["instance_id"]: [str(name) for name in _entries(row["verifier_passing_tests"])]
        for row in _where(proven, "admitted", True)
    }
    faults = []
    for row in _where(verdicts, "outcome", "passed"):
        wanted = expected.get(instance_of.get(row["trajectory_id"]))
        if fault := unearned_fault([dict(test) for test in _entries(row["tests"])], wanted):
            faults.append(f"{row['trajectory_id']}: {fault}")
    return sorted(faults)


def unearned_fault(tests: Sequence[Mapping[str, object]], expected: Sequence[str] | None) -> str:
    """Why these results are no pass; empty when they are. `expected` are the tests of admission, None if unknown."""
    if not tests:
        return "no test ran"
    if others := sorted(f"{test['test_id']} {test['outcome']}" for test in tests if test["outcome"] != "passed"):
        return f"not passed: {', '.join(others)}"
    ran = sorted(str(test["test_id"]) for test in tests)
    if expected is not None and ran != sorted(expected):
        return f"other tests than at admission: {', '.join(ran)}"
    return ""


def _where(rows: pa.Table, column: str, value: object) -> Iterator[Row]:
    """Rows of that value, a few at a time."""
    found = rows.filter(pc.equal(rows[column], pa.scalar(value, rows[column].type)))
    for batch in found.to_batches(max_chunksize=1_000):
        yield from batch.to_pylist()


def _entries(value: object) -> list[dict[str, object]]:
    assert value is None or isinstance(value, list)
    return value or []


def _plain(text: str) -> str:
    text = text.replace("\\\n", " ").lower()
    for mark in "`'\"":
        text = text.replace(mark, " ")
    return " ".join(text.split())
