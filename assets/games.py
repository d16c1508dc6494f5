"""What assets and commands need of the games: their tables, their processes and the tasks that the settings choose."""

import contextlib
from collections.abc import Iterator, Sequence

from assets.environments_config import EnvironmentsConfig
from assets.resources import Workshop
from pipeline.attempts import rounds
from pipeline.batch import StageReport, together
from pipeline.llm.protocol import ChatModel
from pipeline.rollout import RolloutConfig
from pipeline.rows import instance_of
from pipeline.schemas import to_rows
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out_in
from pipeline.tables import Store
from pipeline.types import TaskInstance
from training.environments.game import GameTask
from training.environments.listing import Wanted, list_games
from training.environments.suite import GameSuite
from training.environments.task_lists import FOLDER, tasks_of

GAMES = "environments"
"""Folder of the data folder with the tables of the games: the same tables, apart from those of repositories."""


def games_store(shop: Workshop) -> Store:
    """Tables of the same names and schemas as those of the main job."""
    return Store(shop.data / GAMES)


@contextlib.contextmanager
def suites(shop: Workshop) -> Iterator[dict[str, GameSuite]]:
    """The games of the settings by name; their processes end with the block. Raises ConfigurationError."""
    config = shop.settings.environments
    opened: dict[str, GameSuite] = {}
    try:
        for name in config.games:
            material = config.material.get(name)
            opened[name] = GameSuite(name, config.processes, shop.folder / material if material is not None else None)
        yield opened
    finally:
        for suite in opened.values():
            suite.close()


def chosen_tasks(shop: Workshop, name: str) -> list[GameTask]:
    """Those of one game that the settings ask for. Raises ConfigurationError."""
    config = shop.settings.environments
    folder = shop.folder / config.lists if config.lists is not None else FOLDER
    return tasks_of(name, config.splits, config.per_split, folder)


def list_chosen(shop: Workshop, options: Options) -> StageReport:
    """The tasks of the settings with their gold paths, as rows. Raises ConfigurationError."""
    with suites(shop) as opened:
        wanted = [Wanted(suite, task) for name, suite in opened.items() for task in chosen_tasks(shop, name)]
        return list_games(games_store(shop), wanted, options)


def admitted(store: Store, games: Sequence[str]) -> dict[str, list[TaskInstance]]:
    """Tasks whose gold path solves them, by game, in the order of their ids."""
    found: dict[str, list[TaskInstance]] = {name: [] for name in games}
    for row in to_rows(store.current("instances")):
        if row["admitted"] and row["generator"] in found:
            found[str(row["generator"])].append(instance_of(row))
    return {name: sorted(tasks, key=lambda task: task.instance_id) for name, tasks in found.items()}


def play(shop: Workshop, config: EnvironmentsConfig, model: ChatModel | None, options: Options) -> StageReport:
    """All attempts of the agents at the admitted tasks. Raises ConfigurationError for an agent without its model."""
    store = games_store(shop)
    tasks = admitted(store, config.games)
    reports = []
    with suites(shop) as opened:
        for name, suite in opened.items():
            budgets = RolloutConfig(max_steps=suite.facts.max_steps)
            for attempts in rounds(tasks[name], config.agents, model, config.samples):
                reports.append(roll_out_in(store, attempts, suite, budgets, options))
    return together(reports)
