"""What the report of instances counts as written, admitted and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.instance_report import (
    FAMILIES,
    PER_FAMILY,
    TASKS,
    DomainYield,
    InstanceReport,
    instance_report,
    is_complete,
)
from pipeline.schemas import Row
from pipeline.tables import Store

PASSED: list[Row] = [{"gate": name, "passed": True, "evidence": ""} for name in ("verifier_lint", "noop", "oracle")]


class Folder:
    """A data folder that is filled task by task."""

    def __init__(self, path: Path) -> None:
        self._store = Store(path)
        self._instances: list[Row] = []
        self._selections: list[Row] = []
        self._contaminations: list[Row] = []

    def task(self, *, admitted: bool = True, selected: bool | None = None, **columns: object) -> Folder:
        key = f"task-{len(self._instances)}"
        row: Row = {"item_key": key, "attempt": 1, "reason": "", "instance_id": key, "repository_id": "one"}
        row |= {"generator": "documented", "domain": "general", "language": "python", "family": "printed_text"}
        row |= {"difficulty": "easy", "admitted": admitted, "gates": PASSED, **columns}
        self._instances.append(row)
        if admitted:
            chosen = selected is not False
            self._selections.append(
                {
                    "item_key": key,
                    "attempt": 1,
                    "reason": "",
                    "instance_id": key,
                    "selected": chosen,
                    "failure_class": None if chosen else "near_copy",
                }
            )
        return self

    def near_a_benchmark(self, decision: str) -> Folder:
        """Says so of the last task."""
        key = self._instances[-1]["instance_id"]
        row: Row = {"item_key": f"{key}/set", "attempt": 1, "reason": "", "instance_id": key, "decision": decision}
        self._contaminations.append(row)
        return self

    def report(self) -> InstanceReport:
        place: Row = {"item_key": "place", "attempt": 1, "reason": "no goal", "repository_id": "one", "admitted": False}
        self._store.append("instances", [*self._instances, place], app_id="test", sequence=1)
        self._store.append("selections", self._selections, app_id="test", sequence=1)
        if self._contaminations:
            self._store.append("contaminations", self._contaminations, app_id="test", sequence=1)
        return instance_report(self._store)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_an_empty_folder_counts_as_nothing(tmp_path: Path) -> None:
    found = instance_report(Store(tmp_path))
    assert (found.written, found.admitted, found.documented, found.domains_complete) == (0, 0, 0, 0)
    assert (found.by_domain, found.by_gate, found.by_language, found.by_difficulty) == ({}, {}, {}, {})


def test_a_place_that_gave_no_task_is_not_counted_as_written(folder: Folder) -> None:
    assert folder.task().report().written == 1


def test_a_near_copy_is_not_admitted_and_is_a_gate_of_its_own(folder: Folder) -> None:
    found = folder.task().task(selected=False).report()
    assert (found.written, found.admitted) == (2, 1)
    assert (found.by_gate["near_copy"].reached, found.by_gate["near_copy"].passed) == (2, 1)


def test_a_task_too_near_to_a_benchmark_is_not_admitted(folder: Folder) -> None:
    folder.task().near_a_benchmark("drop").task().near_a_benchmark("review").task(selected=False)
    found = folder.report()
    assert (found.written, found.admitted) == (3, 1)
    gates = {name: (one.reached, one.passed) for name, one in found.by_gate.items()}
    assert (gates["near_copy"], gates["decontamination"]) == ((3, 2), (2, 1))


def test_gates_are_counted_in_the_order_of_the_tasks(folder: Folder) -> None:
    stopped = [*PASSED[:1], {"gate": "noop", "passed": False, "evidence": "passes"}]
    found = folder.task().task(admitted=False, gates=stopped, failure_class="noop").report()
    assert list(found.by_gate) == ["verifier_lint", "noop", "oracle", "near_copy"]
    assert [(one.reached, one.passed) for one in found.by_gate.values()] == [(2, 2), (2, 1), (1, 1), (1, 1)]
    assert found.by_gate["noop"].rate == 0.5


def test_at_most_eight_documented_tasks_of_a_repository_count(folder: Folder) -> None:
    for _ in range(11):
        folder.task(repository_id="rich")
    folder.task(repository_id="poor").task(repository_id="made", generator="domains", domain="sql", family="joins")
    found = folder.report()
    assert (found.admitted, found.documented) == (13, 9)


def test_parts_have_their_yield(folder: Folder) -> None:
    found = folder.task(language="go").task(language="go", admitted=False).task(difficulty="hard").report()
    assert (found.by_language["go"].written, found.by_language["go"].rate) == (2, 0.5)
    assert {name: one.admitted for name, one in found.by_difficulty.items()} == {"easy": 1, "hard": 1}


def test_flaky_verifiers_are_counted(folder: Folder) -> None:
    assert folder.task(flake_rate=0.0).task(admitted=False, flake_rate=0.3).report().flaky == 1


def test_at_most_four_tasks_of_a_family_count_for_a_domain(folder: Folder) -> None:
    for _ in range(6):
        folder.task(generator="domains", domain="sql", family="joins")
    sql = folder.task(generator="domains", domain="sql", family="windows", difficulty="hard").report().by_domain["sql"]
    assert (sql.admitted, sql.counted, sql.families, sql.levels) == (7, PER_FAMILY + 1, 2, 2)


def test_a_complete_domain_is_counted(folder: Folder) -> None:
    for family in range(FAMILIES):
        for level in ("easy", "medium", "hard", "hard"):
            folder.task(generator="domains", domain="sql", family=f"f{family}", difficulty=level)
    found = folder.task(generator="domains", domain="security", family="keys").report()
    assert (found.domains_complete, found.families) == (1, {"security": 1, "sql": FAMILIES})


@pytest.mark.parametrize(
    ("domain", "families", "counted", "levels", "complete"),
    [
        ("sql", FAMILIES, TASKS, 3, True),
        ("sql", FAMILIES - 1, TASKS, 3, False),
        ("sql", FAMILIES, TASKS - 1, 3, False),
        ("sql", FAMILIES, TASKS, 2, False),
        ("qemu", FAMILIES, 8, 3, True),
        ("qemu", FAMILIES, 7, 3, False),
    ],
)
def test_what_makes_a_domain_complete(domain: str, families: int, counted: int, levels: int, complete: bool) -> None:
    found = DomainYield(written=counted, admitted=counted, rate=1.0, families=families, counted=counted, levels=levels)
    assert is_complete(domain, found) is complete
