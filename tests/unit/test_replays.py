"""Replays are kept, each one, and the newest ones make a figure of the data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from pipeline.dataset_card import CardFacts, facts_of
from pipeline.dataset_card.figures import figures_of
from pipeline.dataset_card.markdown import markdown
from pipeline.dataset_card.sections import card_of
from pipeline.joined_rows import judged_rows
from pipeline.journal import Journal
from pipeline.replay_rate import ReplayRate, replay_rate
from pipeline.rows import checkout_row, instance_row, trajectory_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options
from pipeline.stages.replaying import replay_all
from pipeline.tables import Store
from pipeline.types import Checkout, Repository, Step, TaskInstance, Trajectory
from sandbox.errors import SandboxUnavailable
from sandbox.protocol import Backend
from sandbox.types import ExecResult, FrozenState, Judgement, TestOutcome
from tests.unit.drafted_version import drafted

TEST = "test_state.py::test_count"


class Machine:
    """A backend and its sandboxes; each judgement takes the next outcome, and None is an engine that is gone."""

    name = "recorded"

    def __init__(self, *outcomes: str | None) -> None:
        self._outcomes: Iterator[str | None] = iter(outcomes)
        self._next: str | None = None

    def start(self, *_: object) -> Machine:
        self._next = next(self._outcomes)
        if self._next is None:
            raise SandboxUnavailable("the engine is gone")
        return self

    def execute(self, command: str, *, timeout_s: float) -> ExecResult:
        return ExecResult(exit_code=0, output="", output_bytes=0, truncated=False, timed_out=False, seconds=0.0)

    def freeze(self, reference: str, *, keep: bool) -> FrozenState:
        return FrozenState(reference=reference, image_digest="sha256:1")

    def judge(self, *_: object, **__: object) -> Judgement:
        tests = (TestOutcome.model_validate({"test_id": TEST, "outcome": self._next}),)
        return Judgement(tests=tests, exit_code=0, seconds=0.0)

    def discard(self, reference: str) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path, task: TaskInstance) -> Store:
    """With one attempt, which passed."""
    store = Store(tmp_path)
    with Journal(store.root):  # no stage works on tables without one
        pass
    repository = Repository(
        source="local", full_name="local/fruit", commit="c1", language="python", locator="fruit", archive_sha256=None
    )
    checkout = Checkout(
        repository_id=task.repository_id,
        tree_sha256="t",
        n_files=1,
        n_bytes=1,
        license="MIT",
        license_path="LICENSE",
        license_sha256="l",
    )
    trajectory = Trajectory(
        instance_id=task.instance_id,
        agent="oracle",
        steps=(Step(index=0, observation="", action="true", exit_code=0),),
        stop_reason="submitted",
        state_reference="s",
    )
    rows: dict[str, Row] = {
        "repositories": checkout_row(repository, checkout),
        "instances": {**instance_row(task), "admitted": True},
        "trajectories": trajectory_row(trajectory),
        "verifications": {"trajectory_id": trajectory.trajectory_id, "outcome": "passed"},
    }
    for table, row in rows.items():
        store.append(table, [row | {"item_key": "k", "attempt": 1, "reason": ""}], app_id="test", sequence=1)
    return store


def replayed(store: Store, *outcomes: str | None) -> ReplayRate | None:
    """The rate after a replay of everything for each outcome; a machine that fails is asked twice."""
    for outcome in outcomes:
        machine = Machine(*(2 * [outcome]))
        replay_all(store, judged_rows(store), cast(Backend, machine), Options(), command_timeout_s=1.0)
    return replay_rate(store)


def test_each_replay_is_a_row_and_the_newest_one_counts(store: Store) -> None:
    rate = replayed(store, "passed", "failed")
    assert rate is not None
    assert (rate.replayed, rate.same_verdict, rate.rate, rate.judged) == (1, 0, 0.0, 1)
    rows = sorted(to_rows(store.current("replays")), key=lambda row: str(row["number"]))
    assert [(row["number"], row["recorded"], row["replayed"]) for row in rows] == [
        (1, "passed", "passed"),
        (2, "passed", "failed"),
    ]
    assert TEST in str(rows[1]["reason"]) and rows[0]["backend"] == "recorded"


def test_a_replay_that_our_machinery_broke_says_nothing_of_the_verdict(store: Store) -> None:
    rate = replayed(store, None)
    assert rate is not None and (rate.replayed, rate.broken) == (0, 1)
    (row,) = to_rows(store.current("replays"))
    assert (row["failure_class"], row["replayed"]) == ("infrastructure", None)


def test_nothing_is_said_before_the_first_replay(store: Store) -> None:
    assert replayed(store) is None


def test_a_replay_of_an_earlier_verdict_does_not_count(store: Store) -> None:
    replayed(store, "passed")
    (row,) = to_rows(store.current("verifications"))
    store.append("verifications", [row | {"outcome": "failed", "attempt": 2}], app_id="later", sequence=1)
    assert replay_rate(store) is None


@pytest.mark.parametrize("outcomes", [(), ("failed", "passed")], ids=["none", "some"])
def test_the_card_names_the_rate_where_there_is_one(store: Store, outcomes: tuple[str, ...], tmp_path: Path) -> None:
    replayed(store, *outcomes)
    draft = drafted(tmp_path / "draft", {"trajectory_id": ["a"]})
    card = markdown(card_of(draft, figures_of(draft), facts_of(store, CardFacts())))
    assert ("1 of them (100.0%) got the same verdict" in card) is ("carried out again" in card) is bool(outcomes)
