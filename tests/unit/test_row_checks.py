"""A wrong row in a table is named by the check that looks for it, and a sound table passes all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.row_checks import GATES, IDS, UPSTREAM, doubles, misfits, orphans, told_solutions, unearned, unproven
from pipeline.schemas import TABLES, Row
from pipeline.tables import Store

PASSED = [{"test_id": "test_state.py::test_one", "outcome": "passed", "message": ""}]
SOUND: dict[str, list[Row]] = {
    "listings": [{"day": "2026-11-02", "repository_id": "r"}],
    "repositories": [{"repository_id": "r", "tree_sha256": "0"}],
    "contexts": [{"context_id": "c", "repository_id": "r"}],
    "scores": [{"repository_id": "r", "scorer": "s", "kept": True}],
    "image_builds": [{"repository_id": "r", "status": "failed"}, {"repository_id": "r", "smoke_ok": True}],
    "instances": [
        {
            "instance_id": "task",
            "repository_id": "r",
            "admitted": True,
            "instruction": "Write the number of lines of notes.txt into count.txt.",
            "solution": ["wc -l < notes.txt > count.txt", "cat > why.txt <<'E'\nnumber of lines of notes.txt\nE"],
            "verifier_passing_tests": ["test_state.py::test_one"],
            "gates": [{"gate": name, "passed": True, "evidence": ""} for name in sorted(GATES)],
        },
        {"repository_id": "r", "admitted": False},
    ],
    "selections": [{"instance_id": "task", "selected": True}],
    "contaminations": [{"instance_id": "task", "benchmark_sha256": "b"}],
    "ratings": [{"instance_id": "task", "rater": "rules", "task_soundness": 4}],
    "trajectories": [{"trajectory_id": "traj", "instance_id": "task"}, {"instance_id": "task"}],
    "verifications": [{"trajectory_id": "traj", "outcome": "passed", "tests": PASSED}],
    "judgements": [{"trajectory_id": "traj", "model": "m", "prompt_sha256": "p"}],
    "curations": [{"trajectory_id": "traj", "trajectory_attempt": 1, "rules": "1"}],
    "annotations": [{"trajectory_id": "traj", "annotator": "rules@1", "path_sha256": "p"}],
}


class Tables:
    """Tables that are filled as a test needs it."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root)
        self._sequence = 0

    def sound(self, *tables: str) -> None:
        """Sound rows of these tables."""
        for table in tables:
            self.put(table, *SOUND[table])

    def put(self, table: str, *rows: Row) -> None:
        self._sequence += 1
        keyed: list[Row] = [
            {"item_key": f"{self._sequence}-{number}", "attempt": 1, "reason": "", **row}
            for number, row in enumerate(rows)
        ]
        self.store.append(table, keyed, app_id="test", sequence=self._sequence)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def faults(store: Store) -> list[str]:
    """What all checks say together."""
    of_tables = [*(misfits(store, name) for name in TABLES), *(doubles(store, name) for name in IDS)]
    others = [*(orphans(store, name) for name in UPSTREAM), unproven(store), told_solutions(store), unearned(store)]
    return [fault for found in (*of_tables, *others) for fault in found]


def test_sound_rows_pass_every_check(tables: Tables) -> None:
    tables.sound(*SOUND)
    assert faults(tables.store) == []


def test_no_rows_pass_every_check(tmp_path: Path) -> None:
    assert faults(Store(tmp_path)) == []


@pytest.mark.parametrize("table", sorted(set(IDS) - {"instances", "ratings"}))
def test_an_id_that_is_there_twice_is_named(tables: Tables, table: str) -> None:
    tables.sound(table)
    row = next(row for row in SOUND[table] if table != "image_builds" or row.get("smoke_ok"))
    tables.put(table, row)
    named = " ".join(str(row.get(name)) for name in IDS[table])
    assert doubles(tables.store, table) == [f"{table}: {named} is there 2 times"]


@pytest.mark.parametrize("table", ["instances", "ratings"])
def test_a_row_that_was_written_twice_is_named(tables: Tables, table: str) -> None:
    twice = SOUND[table][0] | {"item_key": "same"}
    tables.put(table, twice)
    assert doubles(tables.store, table) == []
    tables.put(table, twice)
    assert len(doubles(tables.store, table)) == 1


def test_a_later_attempt_at_an_item_is_no_double(tables: Tables) -> None:
    tables.put("verifications", {"trajectory_id": "other", "outcome": "error", "item_key": "k"})
    tables.put("verifications", {"trajectory_id": "other", "outcome": "failed", "item_key": "k", "attempt": 2})
    assert doubles(tables.store, "verifications") == []


@pytest.mark.parametrize("table", sorted(UPSTREAM))
def test_a_row_about_what_upstream_does_not_have_is_named(tables: Tables, table: str) -> None:
    column, upstream, *_ = UPSTREAM[table]
    tables.sound(upstream, table)
    tables.put(table, SOUND[table][0] | {column: "nowhere"})
    assert orphans(tables.store, table) == [f"{table}: nowhere comes from no row of {upstream}"]


@pytest.mark.parametrize(
    ("table", "row", "upstream"),
    [
        ("scores", {"repository_id": "new"}, {"repository_id": "new", "tree_sha256": None}),
        ("image_builds", {"repository_id": "new"}, {"repository_id": "new", "kept": False}),
        ("instances", {"repository_id": "new"}, {"repository_id": "new", "smoke_ok": False}),
        ("trajectories", {"instance_id": "new"}, {"instance_id": "new", "admitted": False}),
        ("judgements", {"trajectory_id": "new"}, {"trajectory_id": "new", "outcome": "error"}),
        ("curations", {"trajectory_id": "new"}, {"trajectory_id": "new", "outcome": "failed"}),
    ],
)
def test_a_row_about_what_upstream_refused_is_named(tables: Tables, table: str, row: Row, upstream: Row) -> None:
    tables.put(UPSTREAM[table].table, upstream)
    tables.put(table, row)
    assert len(orphans(tables.store, table)) == 1


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ([], "not asked"),
        ([{"gate": name, "passed": name != "oracle", "evidence": ""} for name in sorted(GATES)], "failed ['oracle']"),
        ([{"gate": name, "passed": True, "evidence": ""} for name in sorted(GATES - {"noop"})], "not asked ['noop']"),
    ],
)
def test_an_instance_that_was_admitted_without_a_gate_is_named(tables: Tables, gates: list[Row], said: str) -> None:
    tables.put("instances", SOUND["instances"][0] | {"instance_id": "new", "gates": gates})
    (fault,) = unproven(tables.store)
    assert fault.startswith("new: ") and said in fault


@pytest.mark.parametrize(
    ("instruction", "solution"),
    [
        ("Run `WC -L 'notes.txt'` and keep it.", ["wc -l notes.txt"]),
        ("Then do this: sort -u names.txt | head -3", ["cd names", "set -e\nsort -u names.txt | head -3"]),
        ("Use sort -u names.txt -o sorted.txt then.", ["sort -u \\\n  names.txt -o sorted.txt"]),
        ("Say cat > a.py <<'E' print(1 + 1) E to make it.", ["cat > a.py <<'E'\nprint(1 + 1)\nE"]),
    ],
)
def test_an_instruction_that_tells_a_command_of_the_solution_is_named(
    tables: Tables, instruction: str, solution: Sequence[str]
) -> None:
    sound = {"instance_id": "new", "instruction": instruction, "solution": list(solution)}
    tables.put("instances", SOUND["instances"][0] | sound)
    (fault,) = told_solutions(tables.store)
    assert fault.startswith("new: ")


def test_an_instance_that_was_not_admitted_may_tell_its_solution(tables: Tables) -> None:
    row = {"instance_id": "new", "instruction": "wc -l notes.txt", "solution": ["wc -l notes.txt"], "admitted": False}
    tables.put("instances", row)
    assert told_solutions(tables.store) == []


def results(*outcomes: str, name: str = "one") -> list[Row]:
    return [{"test_id": f"test_state.py::test_{name}", "outcome": outcome, "message": ""} for outcome in outcomes]


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (None, "no test ran"),
        ([], "no test ran"),
        (results("skipped"), "not passed: test_state.py::test_one skipped"),
        (results("passed", "xfailed"), "not passed: test_state.py::test_one xfailed"),
        (results("failed"), "not passed"),
        (results("passed", name="other"), "other tests than at admission: test_state.py::test_other"),
        (results("passed", "passed"), "other tests than at admission"),
    ],
)
def test_a_pass_that_its_tests_do_not_prove_is_named(tables: Tables, tests: list[Row] | None, said: str) -> None:
    tables.sound("instances")
    tables.put("trajectories", {"trajectory_id": "new", "instance_id": "task"})
    tables.put("verifications", {"trajectory_id": "new", "outcome": "passed", "tests": tests})
    (fault,) = unearned(tables.store)
    assert fault.startswith(f"new: {said}")


def test_a_skipped_test_behind_a_verdict_that_is_no_pass_is_nothing_to_name(tables: Tables) -> None:
    tables.sound("instances")
    tables.put("trajectories", {"trajectory_id": "new", "instance_id": "task"})
    tables.put("verifications", {"trajectory_id": "new", "outcome": "failed", "tests": results("skipped")})
    assert unearned(tables.store) == []


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"item_key": ["a"], "mood": ["good"]}), "scores.mood: version 2 has no such column"),
        (pa.table({"item_key": ["a"], "score": ["high"]}), "scores.score: string, version 2 has double"),
    ],
)
def test_a_column_in_a_file_that_the_schema_does_not_have_is_named(tables: Tables, table: pa.Table, said: str) -> None:
    tables.sound("scores")
    (file,) = tables.store.files("scores")
    pq.write_table(table, file)
    assert misfits(tables.store, "scores") == [said]


def test_a_file_of_an_older_version_lacks_columns_and_is_no_fault(tables: Tables) -> None:
    tables.sound("scores")
    (file,) = tables.store.files("scores")
    pq.write_table(pa.table({"item_key": ["a"], "score": [0.5]}), file)
    assert misfits(tables.store, "scores") == []
