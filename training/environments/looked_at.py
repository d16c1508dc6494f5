"""Gold paths of ScienceWorld on which everything in sight and in hand is seen at each step, for reports of tokens.

Agents of other work read it in each observation: the package gives it away for nothing. In our own tables observations
are what the action brought, and an agent looks around when it wants to.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.hierarchy.path import Path, PathStep
from training.environments.scienceworld import FACTS, ScienceWorld, make
from training.environments.task_lists import tasks_of


def looked_at_paths(most: int | None = None) -> Iterator[Path]:
    """The first variation of each template, at most so many, played in a JVM of this process.

    A path that did not reach the full score is left out. Raises ConfigurationError without Java or the package.
    """
    first = {task.task_type: task for task in reversed(tasks_of(FACTS.name))}
    game = make()
    try:
        for _, task in sorted(first.items())[:most]:
            path = _path(game, task.task_type, task.variation)
            if path.steps[-1].score >= 1.0:
                yield path
    finally:
        game.close()


def _path(game: ScienceWorld, task_type: str, variation: str) -> Path:
    game.start(task_type, variation)
    gold = game.gold()
    task = game.start(task_type, variation).task
    seen, score = game.surroundings(), 0.0
    steps = []
    for action in gold:
        played = game.act(action)
        result = f"{played.observation}\n{game.surroundings()}"
        steps.append(
            PathStep(
                observation=seen,
                action=action,
                result=result,
                reward=played.score - score,
                score=played.score,
                rejected=played.rejected,
                done=played.done,
            )
        )
        seen, score = result, played.score
        if played.done:
            break
    return Path(environment=FACTS.name, task=task, steps=tuple(steps))
