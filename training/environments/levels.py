"""How hard a task is among those of its game: its third by the length of its gold path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.types import Difficulty
from training.environments.game import GameTask


def levelled(tasks: Sequence[Mapping[str, object]]) -> Iterator[GameTask]:
    """The tasks, in their order, each with its level: the fields of GameTask without `difficulty`.

    Equal lengths have equal levels, so that the thirds are no exact ones.
    """
    lengths = sorted(int(str(task["gold_steps"])) for task in tasks)
    first, second = (lengths[len(lengths) * part // 3] for part in (1, 2)) if lengths else (0, 0)
    for task in tasks:
        steps = int(str(task["gold_steps"]))
        level: Difficulty = "easy" if steps < first else "medium" if steps < second else "hard"
        yield GameTask.model_validate({**task, "difficulty": level})
