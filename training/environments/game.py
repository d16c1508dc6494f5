"""What a game promises. A game lives in a process of its own (worker.py), so it may keep state and need not be safe.

The module of a game is imported by everybody, for its facts; the package that it stands on only where it is played.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from pydantic import Field

from pipeline.types import Difficulty, Record

Split = Literal["train", "seen", "unseen"]
SPLITS: tuple[Split, ...] = get_args(Split)
"""`seen`: new instances of templates that are in train (ID); `unseen`: templates of which train has none (OOD)."""


@dataclass(frozen=True)
class GameFacts:
    """What is known of a game without its package."""

    name: str
    """In snake_case, e.g. `scienceworld`."""
    package: str
    """Distribution that it stands on; `touchstone` for what is made here."""
    license: str
    """SPDX id."""
    needs_java: bool
    has_admissible: bool
    """It can say which actions it would take now."""
    by_chance: bool
    """The same actions do not always bring the same, and gold paths of one task differ from time to time."""
    max_steps: int
    """Of one attempt; more than any gold path has."""
    step_timeout_s: float
    """Wall time after which a process that does not answer is given up."""


class GameTask(Record):
    """One task, as a line of the splits file of its game: splits/NAME.jsonl."""

    task_type: str
    """The template, e.g. `boil`."""
    variation: str
    """Which instance of the template: a number or a seed, as text."""
    split: Split
    gold_steps: int = Field(gt=0)
    """Length of the gold path; of one of them in a game by chance."""
    difficulty: Difficulty
    """Third of the game's tasks by `gold_steps`, or by depth where the game has one."""
    depth: int | None = None
    """Of nested parts, where the game has such a thing."""


class Opening(Record):
    """What a task begins with."""

    task: str
    """What is to be done, in words, with everything that stays true for the whole attempt."""
    observation: str


class Played(Record):
    """What one action brought."""

    observation: str
    score: float = Field(ge=-1.0, le=1.0)
    """So far; 1 is full."""
    done: bool
    """Nothing more can be done: the task is solved or lost."""
    rejected: bool
    """The game did not know the action, or did not let it happen."""


class Game(Protocol):
    """One game at a time. Errors of the package leave as they are.

    Equal tasks and actions give equal texts in every process, but in games by chance.
    """

    @property
    def facts(self) -> GameFacts: ...

    def candidates(self) -> Iterator[GameTask]:
        """The tasks that the splits file is made of, by fixed rules; only the making of that file asks for them."""

    def start(self, task_type: str, variation: str) -> Opening:
        """Begin that task. Raises ValueError for one that there is not."""

    def act(self, action: str) -> Played:
        """One action, whatever its text."""

    def gold(self) -> tuple[str, ...]:
        """Actions that solve the task that was begun, from its start; the attempt may be lost by asking.

        The last ones may not be needed, where chance decides when it is solved.
        """

    def admissible(self) -> tuple[str, ...] | None:
        """Actions that the game would take now, sorted; None where it cannot say."""

    def close(self) -> None:
        """Release everything; safe to call twice."""
