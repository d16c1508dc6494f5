"""ALFWorld: chores in a household, told in text, after the six kinds of tasks of ALFRED.

Shridhar et al. 2021, "ALFWorld: Aligning Text and Embodied Environments for Interactive Learning". The package has the
rules (PDDL) and the grammar and no games, so that rooms and tasks are drawn from seeds here (household/). Where a
folder with its own game files is given, those are the tasks. The gold path of a drawn task is that of somebody who has
to look for things; that of a file is the plan of the package's planner.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from training.environments.game import GameFacts, GameTask, Opening, Played
from training.environments.household.problem import piece_id, problem, thing_id
from training.environments.household.rooms import Piece, Thing
from training.environments.household.tasks import TASK_TYPES, Chore, drawn, solved
from training.environments.levels import levelled

FACTS = GameFacts(
    name="alfworld",
    package="alfworld",
    license="MIT",
    needs_java=False,
    has_admissible=True,
    by_chance=False,
    max_steps=60,
    step_timeout_s=60.0,
)
UNSEEN = ("pick_cool_then_place_in_recep",)
"""Held out: its relatives clean and heat."""
PER_TYPE = {"train": (0, 70), "seen": (1_000, 14), "unseen": (0, 70)}
"""First seed and number of seeds of each template."""
_REFUSED = "Nothing happens."
_GAME_FILE = "game.tw-pddl"


def make(folder: Path | None = None) -> AlfWorld:
    """With a folder, its game files are the tasks: the variation is the folder of the file in it."""
    return AlfWorld(folder)


class AlfWorld:
    """One game at a time; see Game."""

    def __init__(self, folder: Path | None = None) -> None:
        from alfworld.gen import constants

        from training.environments.household.engine import Engine

        self._folder = folder
        self._holds = {kind: frozenset(held) for kind, held in constants.VAL_RECEPTACLE_OBJECTS.items()}
        self._able = {kind: frozenset(held) for kind, held in constants.VAL_ACTION_OBJECTS.items()}
        self._engine = Engine()
        self._state: Any = None
        self._chore: Chore | None = None

    @property
    def facts(self) -> GameFacts:
        return FACTS

    def candidates(self) -> Iterator[GameTask]:
        """See Game: each gold path is played."""
        found = []
        for task_type, variation, split in self._files() if self._folder is not None else _drawn_tasks():
            self.start(task_type, variation)
            gold = self.gold()  # takes no action
            played = [self.act(action) for action in gold]
            if played and played[-1].score >= 1.0 and not any(one.done for one in played[:-1]):
                fields: dict[str, object] = {"task_type": task_type, "variation": variation, "split": split}
                found.append(fields | {"gold_steps": len(gold)})
        return levelled(found)

    def start(self, task_type: str, variation: str) -> Opening:
        """See Game."""
        task = ""
        if self._folder is not None:
            game = self._from_file(task_type, variation)
        else:
            game, task = self._made(task_type, variation)
        self._state = self._engine.begin(game)
        _, _, told = str(self._state.feedback).partition("\n\n")
        observation, _, told_task = told.partition("\n\n")
        return Opening(task=task or told_task.strip(), observation=observation.strip())

    def act(self, action: str) -> Played:
        """See Game."""
        self._state, _, _ = self._engine.step(" ".join(action.split()))
        won = bool(self._state["won"])
        observation = str(self._state.feedback).strip()
        return Played(observation=observation, score=float(won), done=won, rejected=observation == _REFUSED)

    def gold(self) -> tuple[str, ...]:
        """See Game."""
        if self._chore is None:
            return tuple(self._engine.plan())
        names = self._engine.names()
        house = self._chore.house
        named: dict[Piece | Thing, str] = {piece: names[piece_id(piece).lower()] for piece in house.pieces}
        named |= {thing: names[thing_id(thing).lower()] for thing in house.things}
        return tuple(solved(self._chore, named, self._holds))

    def admissible(self) -> tuple[str, ...]:
        """See Game."""
        return tuple(sorted(self._state["admissible_commands"]))

    def close(self) -> None:
        """See Game: nothing is held but memory."""

    def _made(self, task_type: str, variation: str) -> tuple[Mapping[str, object], str]:
        """The game of a seed, as a game file has it but for the task, and the task."""
        from alfworld.gen.goal_library import gdict

        chore = self._chore = drawn(task_type, int(variation), self._holds, self._able)
        words = {"obj": chore.thing, "recep": chore.target, "toggle": "DeskLamp", "mrecep": ""}
        goal = gdict[task_type]["pddl"].format(**words).replace(" # ", " - ").rstrip().removesuffix(")")
        told = gdict[task_type]["templates"][chore.wording].format(**{name: one.lower() for name, one in words.items()})
        data = files("alfworld") / "data"
        game = {
            "pddl_domain": (data / "alfred.pddl").read_text(encoding="utf-8"),
            "grammar": (data / "alfred.twl2").read_text(encoding="utf-8"),
            "pddl_problem": problem(chore, goal, self._holds, self._able),
        }
        return game, f"Your task is to: {told}."

    def _from_file(self, task_type: str, variation: str) -> Mapping[str, object]:
        assert self._folder is not None
        if (task_type, variation) not in {(kind, place) for kind, place, _ in self._files()}:
            raise ValueError(f"{self._folder} has no {_GAME_FILE} of {task_type} in {variation!r}")
        self._chore = None
        game: Mapping[str, object] = json.loads((self._folder / variation / _GAME_FILE).read_text(encoding="utf-8"))
        return game

    def _files(self) -> Iterator[tuple[str, str, str]]:
        """Template, folder and split of the game files, as ALFWorld's own folders tell them."""
        assert self._folder is not None
        for file in sorted(self._folder.rglob(_GAME_FILE)):
            place = file.parent.relative_to(self._folder).as_posix()
            task_type = next((one for one in TASK_TYPES if one in place), None)
            if task_type is not None:
                split = "unseen" if "unseen" in place else "seen" if "seen" in place else "train"
                yield task_type, place, split


def _drawn_tasks() -> Iterator[tuple[str, str, str]]:
    for task_type in TASK_TYPES:
        for split in ("unseen",) if task_type in UNSEEN else ("train", "seen"):
            first, count = PER_TYPE[split]
            for seed in range(first, first + count):
                yield task_type, str(seed), split
