"""ScienceWorld: experiments of a primary school in ten rooms, told in text; 30 templates of tasks in a JVM.

Wang et al. 2022, "ScienceWorld: Is your Agent Smarter than a 5th Grader?"; the package scienceworld with its jar. What
an agent sees is the text that its action brought, and nothing that the package could add: no inventory, no look around,
no list of valid actions, which costs ten times the action itself. A score below zero is a lost task. Temperatures, the
order of things in a room and the package's gold paths are by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from training.environments.game import GameFacts, GameTask, Opening, Played
from training.environments.java import need_java
from training.environments.levels import levelled

if TYPE_CHECKING:
    from scienceworld import ScienceWorldEnv

FACTS = GameFacts(
    name="scienceworld",
    package="scienceworld",
    license="Apache-2.0",
    needs_java=True,
    has_admissible=True,
    by_chance=True,
    max_steps=350,
    step_timeout_s=60.0,
)
UNSEEN = (
    "chemistry-mix-paint-tertiary-color",
    "find-plant",
    "freeze",
    "inclined-plane-friction-unnamed-surfaces",
    "lifespan-shortest-lived",
    "measure-melting-point-unknown-substance",
    "mendelian-genetics-unknown-plant",
    "test-conductivity-of-unknown-substances",
)
"""Templates that are held out: one of each topic of which a relative stays in train."""
PER_TYPE = {"train": 10, "seen": 3, "unseen": 6}
"""Variations of each template, the first ones of the package's own folds: train, then dev and test."""
_REJECTED = re.compile(
    r"No known action matches|It's not clear how|That can't be|I'm not sure|You can't"
    r"|.{1,80} is not (something that can be|moveable|edible|a container)"
)
_NO_SIMPLIFICATION = ""


def make() -> ScienceWorld:
    """Raises ConfigurationError without Java."""
    need_java(FACTS.name)
    return ScienceWorld()


class ScienceWorld:
    """One simulator; see Game."""

    def __init__(self) -> None:
        from scienceworld import ScienceWorldEnv

        self._env: ScienceWorldEnv = ScienceWorldEnv("", envStepLimit=10**9)
        self._server: Any = self._env.server  # made by py4j from what the JVM has
        self._task: tuple[str, int] | None = None

    @property
    def facts(self) -> GameFacts:
        return FACTS

    def candidates(self) -> Iterator[GameTask]:
        """See Game: each gold path is played."""
        found = []
        for task_type in sorted(self._env.get_task_names()):
            for split, variations in self._folds(task_type).items():
                for variation in variations[: PER_TYPE[split]]:
                    if steps := self._played(task_type, str(variation)):
                        found.append({"task_type": task_type, "variation": str(variation), "split": split} | steps)
        return levelled(found)

    def start(self, task_type: str, variation: str) -> Opening:
        """See Game: any variation that the package has, in the splits or not."""
        if task_type not in self._env.get_task_names():
            raise ValueError(f"ScienceWorld has no task {task_type!r}")
        number = int(variation)
        if not 0 <= number < self._env.get_max_variations(task_type):
            raise ValueError(f"{task_type} has no variation {number}")
        return self._begin(task_type, number, gold=False)

    def act(self, action: str) -> Played:
        """See Game."""
        # A line break would be a word of the action to the parser; NUL ends a text for it.
        observation = str(self._server.step(" ".join(action.replace("\0", " ").split())))
        score = round(float(self._server.getScore()), 4)
        return Played(
            observation=observation,
            score=max(-1.0, min(1.0, score)),
            done=score >= 1.0 or score < 0.0 or bool(self._server.getCompleted()),
            rejected=_REJECTED.match(observation) is not None,
        )

    def gold(self) -> tuple[str, ...]:
        """See Game: the package's own, found while the task is loaded once more. Many of them end with waiting."""
        assert self._task is not None
        self._begin(*self._task, gold=True)
        return tuple(self._env.get_gold_action_sequence())

    def admissible(self) -> tuple[str, ...]:
        """See Game."""
        return tuple(sorted(set(self._env.get_valid_action_object_combinations())))

    def surroundings(self) -> str:
        """What is in sight and in hand, which takes no action."""
        return f"{self._server.freeActionLook()}\n{self._server.freeActionInventory()}".strip()

    def close(self) -> None:
        """See Game."""
        self._env.close()

    def _begin(self, task_type: str, variation: int, *, gold: bool) -> Opening:
        self._env.load(task_type, variation, _NO_SIMPLIFICATION, generateGoldPath=gold)
        self._server.reset()
        self._task = (task_type, variation)
        task = str(self._server.freeActionTaskDesc()).removeprefix("Task Description:\n").strip()
        return Opening(task=task, observation=str(self._server.freeActionLook()).strip())

    def _folds(self, task_type: str) -> dict[str, list[int]]:
        self._env.load(task_type, 0, _NO_SIMPLIFICATION)
        train = sorted(self._env.get_variations_train())
        if task_type in UNSEEN:
            return {"unseen": train}
        return {"train": train, "seen": sorted([*self._env.get_variations_dev(), *self._env.get_variations_test()])}

    def _played(self, task_type: str, variation: str) -> dict[str, int] | None:
        """The length of the gold path; None where it does not reach the full score at its end."""
        self.start(task_type, variation)
        gold = self.gold()
        self.start(task_type, variation)
        for action in gold:
            if (played := self.act(action)).done:
                return {"gold_steps": len(gold)} if played.score >= 1.0 else None
        return None
