"""Plays the tasks of a published benchmark of hierarchies: each once, in tables of its own, which score() counts.

Nothing but the version is needed: its rows say how each task is begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.attempts import SamplesConfig, rounds
from pipeline.errors import ConfigurationError
from pipeline.hierarchy.columns import BENCHMARK_KEY
from pipeline.journal import Journal
from pipeline.llm.protocol import ChatModel
from pipeline.rollout import RolloutConfig
from pipeline.schemas import Row, to_rows
from pipeline.snapshots import load, manifest_of
from pipeline.stages.benchmarks import SPLITS
from pipeline.stages.game_verdicts import judge_games
from pipeline.stages.options import Options
from pipeline.stages.rollouts import roll_out_in
from pipeline.tables import Store
from pipeline.types import TaskInstance
from training.environments.game import GameTask, Opening
from training.environments.suite import GameSuite

FOLDER = "benchmarks"
"""Below the data folder: tables of the attempts at each version, of all agents and models."""


def store_of(data: Path, reference: str) -> Store:
    """The tables of the attempts at NAME@VERSION, ready to be written to."""
    folder = data / FOLDER / reference.replace("@", "-")
    Journal(folder).close()  # tables without a journal are taken for harmed ones
    return Store(folder)


def game_of(version: Path) -> tuple[str, int]:
    """The game whose tasks are in a version of a benchmark, and the actions that an attempt may have.

    Raises ConfigurationError for any other version.
    """
    manifest = manifest_of(version)
    if manifest.key != BENCHMARK_KEY:
        raise ConfigurationError(f"{manifest.name}@{manifest.version} is no benchmark of hierarchies")
    first = to_rows(load(version).select(["env", "max_steps"]).slice(0, 1))[0]
    return str(first["env"]), int(str(first["max_steps"]))


def tasks_of(version: Path, suite: GameSuite, splits: Sequence[str], limit: int | None) -> list[TaskInstance]:
    """The tasks in these splits, in each at most `limit`, the first ones by their ids.

    Raises ConfigurationError when the game that is installed is another one than the version was made with.
    """
    rows = sorted(to_rows(load(version)), key=lambda row: str(row["task_id"]))
    found = []
    for split in splits:
        found += [_task(row, suite) for row in [row for row in rows if row["split"] == split][:limit]]
    return found


def attempt(
    store: Store,
    tasks: Sequence[TaskInstance],
    suite: GameSuite,
    agent: str,
    model: ChatModel | None,
    samples: SamplesConfig,
    options: Options,
    *,
    max_steps: int,
) -> None:
    """One attempt at each task and its verdict; the same call again goes on where it was stopped.

    Raises ConfigurationError for an agent without its model.
    """
    budgets = RolloutConfig(max_steps=max_steps)
    for attempts in rounds(tasks, [agent], model, samples):
        roll_out_in(store, attempts, suite, budgets, options)
    judge_games(store, tasks, options)


def _task(row: Row, suite: GameSuite) -> TaskInstance:
    solution = row["solution"]
    assert isinstance(solution, list)
    of_split = next(name for name, published in SPLITS.items() if published == row["split"])
    fields = {"task_type": row["task_type"], "variation": row["variation_id"], "split": of_split, "depth": row["depth"]}
    task = GameTask.model_validate(fields | {"gold_steps": row["gold_steps"], "difficulty": row["difficulty"]})
    opening = Opening(task=str(row["task_description"]), observation=str(row["observation"]))
    instance = suite.told(task, opening, tuple(solution))
    if instance.instance_id != row["task_id"]:
        raise ConfigurationError(
            f"the benchmark was made with {row['package']} {row['package_version']}, and {suite.package_version} is "
            "installed: its tasks are other ones; install that version, or publish the benchmark anew"
        )
    return instance
