"""What a card takes from the working tables, from rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.dataset_card import CardFacts, facts_of
from pipeline.dataset_card.facts import AttemptYield, Flakes
from pipeline.schemas import Row
from pipeline.tables import Store


def put(store: Store, table: str, rows: Sequence[Row]) -> None:
    batch = [{"item_key": f"{number}", "attempt": 1} | row for number, row in enumerate(rows)]
    store.append(table, batch, app_id=table, sequence=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path)
    kind: Row = {"language": "go", "difficulty": "easy", "generator": "documented", "family": "join"}
    tasks = [("i1", "r1", "sql", 0.0), ("i2", "r1", "sql", 0.25), ("i3", "r2", "qemu", None)]
    put(found, "repositories", [{"repository_id": "r1", "license": "MIT"}, {"repository_id": "r2", "license": None}])
    put(
        found,
        "instances",
        [
            {"instance_id": i, "repository_id": r, "domain": d, "flake_rate": f, "admitted": f == 0} | kind
            for i, r, d, f in tasks
        ],
    )
    put(found, "selections", [{"instance_id": "i1", "selected": True}])
    attempts = [
        ("t1", "i1", "bash", "m"),
        ("t2", "i1", "bash", "m"),
        ("t3", "i3", "bash", "m"),
        ("t4", "i1", "oracle", None),
    ]
    broken: Row = {"instance_id": "i1", "agent": "bash", "model": "m", "failure_class": "infrastructure"}
    put(
        found,
        "trajectories",
        [*({"trajectory_id": t, "instance_id": i, "agent": a, "model": m} for t, i, a, m in attempts), broken],
    )
    verdicts = [("t1", "passed"), ("t2", "failed"), ("t3", "passed"), ("t4", "error")]
    put(found, "verifications", [{"trajectory_id": t, "outcome": outcome} for t, outcome in verdicts])
    return found


def test_attempts_are_counted_by_domain_agent_and_model(store: Store) -> None:
    assert facts_of(store, CardFacts()).attempts == (
        AttemptYield(domain="qemu", agent="bash", model="m", attempts=1, judged=1, passed=1),
        AttemptYield(domain="sql", agent="bash", model="m", attempts=2, judged=2, passed=1),
        AttemptYield(domain="sql", agent="oracle", model=None, attempts=1, judged=0, passed=0),
    )


def test_only_verifiers_that_were_repeated_count_for_the_flake_rate(store: Store) -> None:
    assert facts_of(store, CardFacts()).flakes == Flakes(checked=2, flaky=1)


def test_verified_attempts_are_counted_by_the_licence_of_their_repository(store: Store) -> None:
    assert facts_of(store, CardFacts()).verified_by_licence == (("MIT", 1), (None, 1))


def test_tasks_are_counted_by_domain(store: Store) -> None:
    by_domain = facts_of(store, CardFacts()).by_domain
    assert {name: (one.written, one.admitted) for name, one in by_domain.items()} == {"qemu": (1, 0), "sql": (2, 1)}


def test_what_is_known_already_stays(store: Store) -> None:
    facts = facts_of(store, CardFacts(code_commit="c1", compared=False))
    assert (facts.code_commit, facts.compared) == ("c1", False)


def test_empty_tables_have_no_rates(tmp_path: Path) -> None:
    facts = facts_of(Store(tmp_path), CardFacts())
    assert (facts.attempts, facts.flakes, facts.replays, facts.by_domain) == ((), None, None, {})
