"""Brings the tasks of games into the tables: their packages as repositories, each task with its gold path.

A task is admitted when its gold path reaches the full score from a start that does not have it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from typing import NamedTuple

from pipeline.batch import Failure, Item, Outcome, StageReport, together
from pipeline.errors import ItemRejected
from pipeline.rows import instance_row, repository_row
from pipeline.schemas import Row
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from training.environments.game import GameFacts, GameTask
from training.environments.pool import UnknownTask
from training.environments.suite import GameSuite

UNKNOWN_TASK = "unknown_task"
"""Failure class of a task in the splits file that the game does not have."""
GOLD_FAILED = "gold_failed"
"""Failure class of a task whose gold path does not reach the full score."""


class Wanted(NamedTuple):
    """A task of a game that is to be listed."""

    suite: GameSuite
    task: GameTask

    @property
    def key(self) -> str:
        name = f"{self.suite.name}@{self.suite.package_version}"
        return f"{name}/{self.task.task_type}/{self.task.variation}/{self.task.split}"


def list_games(store: Store, wanted: Sequence[Wanted], options: Options) -> StageReport:
    """One row in `repositories` for each game, one in `instances` for each task.

    Raises ConfigurationError for a game that is not installed.
    """
    suites = {one.suite.name: one.suite for one in wanted}
    return together([_packages(store, list(suites.values()), options), _tasks(store, wanted, options)])


def _packages(store: Store, suites: Sequence[GameSuite], options: Options) -> StageReport:
    def work(suite: GameSuite) -> Outcome:
        told = repository_row(suite.repository()) | {"license": suite.facts.license} | _license_file(suite.facts)
        return Outcome({"repositories": [told]})

    def failed_rows(suite: GameSuite, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"repositories": [repository_row(suite.repository())]}

    items = [Item(suite.repository().repository_id, suite) for suite in suites]
    return over_items("game_packages", items, work, store=store, failed_rows=failed_rows, options=options)


def _tasks(store: Store, wanted: Sequence[Wanted], options: Options) -> StageReport:
    def work(one: Wanted) -> Outcome:
        try:
            instance, solved = one.suite.instance(one.task)
        except UnknownTask as error:
            raise ItemRejected(UNKNOWN_TASK, str(error)) from error
        row = instance_row(instance) | {"admitted": solved}
        failure = None
        if not solved:
            failure = Failure(failure_class=GOLD_FAILED, reason="the gold path does not reach the full score")
        return Outcome({"instances": [row]}, failure)

    def failed_rows(one: Wanted, failure: Failure) -> Mapping[str, Sequence[Row]]:
        told: Row = {"generator": one.suite.name, "family": one.task.task_type, "admitted": False}
        return {"instances": [told | {"repository_id": one.suite.repository().repository_id}]}

    items = [Item(one.key, one) for one in wanted]
    return over_items("games", items, work, store=store, failed_rows=failed_rows, options=options)


def _license_file(facts: GameFacts) -> Row:
    """Name and hash of the licence text that the package carries, where it carries one."""
    for file in distribution(facts.package).files or ():
        if file.name.upper().startswith(("LICENSE", "LICENCE")):
            content = file.read_binary()
            return {"license_path": str(file), "license_sha256": hashlib.sha256(content).hexdigest()}
    return {}
