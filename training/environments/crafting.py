"""Recipes, and how something is made from what can simply be got: back-chaining with counts, without any game.

Names are as an agent writes them, with spaces. A recipe may need a group (`planks`), which stands for any one of its
members; one craft takes all of them from the same member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product


@dataclass(frozen=True, order=True)
class Recipe:
    """What is made, and from what, in one craft."""

    item: str
    count: int
    needs: tuple[tuple[str, int], ...]
    """Names of items or groups, each with how many."""

    @property
    def text(self) -> str:
        """The action; it is one as long as no group is in it."""
        needs = ", ".join(f"{count} {name}" for name, count in self.needs)
        return f"craft {self.count} {self.item} using {needs}"


class Cookbook:
    """All recipes of a game."""

    def __init__(self, recipes: Iterable[Recipe], groups: Mapping[str, tuple[str, ...]]) -> None:
        """`groups`: members by name. What has no recipe can be got. Raises ValueError for what cannot be made of it."""
        self._groups = groups
        self._recipes: dict[str, list[Recipe]] = {}
        for recipe in sorted(set(recipes)):
            self._recipes.setdefault(recipe.item, []).append(recipe)
        self._depths: dict[str, int] = {}
        while known := {item: depth for item in self._recipes if (depth := self._found_depth(item)) is not None}:
            self._depths |= known
        if never := set(self._recipes) - set(self._depths):
            raise ValueError(f"nothing that can be got leads to {', '.join(sorted(never))}")

    @property
    def items(self) -> tuple[str, ...]:
        """What can be crafted, sorted."""
        return tuple(self._recipes)

    def can_be_got(self, name: str) -> bool:
        """It is neither crafted nor a group."""
        return name not in self._recipes and name not in self._groups

    def depth(self, name: str) -> int:
        """Crafts that have to follow each other at least: 0 of what can be got."""
        members = self._groups.get(name, (name,))
        return min(self._depths.get(member, 0) for member in members if self._is_known(member))

    def behind(self, item: str) -> tuple[Recipe, ...]:
        """Every recipe that can have a part in making it, sorted."""
        found: set[Recipe] = set()
        seen: set[str] = set()
        waiting = [item]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting += self._groups.get(name, ())
            for recipe in self._recipes.get(name, ()):
                found.add(recipe)
                waiting += [need for need, _ in recipe.needs]
        return tuple(sorted(found))

    def beside(self, recipes: Iterable[Recipe]) -> tuple[Recipe, ...]:
        """Other recipes that need something that these need, sorted."""
        given = set(recipes)
        needed = {name for recipe in given for name, _ in recipe.needs}
        every = {recipe for some in self._recipes.values() for recipe in some}
        return tuple(sorted(one for one in every - given if any(name in needed for name, _ in one.needs)))

    def ways(self, recipe: Recipe) -> Iterator[Recipe]:
        """The recipe with each choice of members for its groups."""
        for names in product(*(self._groups.get(name, (name,)) for name, _ in recipe.needs)):
            yield replace(recipe, needs=tuple(zip(names, (count for _, count in recipe.needs), strict=True)))

    def path(self, item: str) -> tuple[str, ...]:
        """Actions that make it from nothing: what a craft needs is got just before the first craft of its kind."""
        runs = self._runs(item)
        actions: list[str] = []
        made: set[str] = set()

        def make(name: str) -> None:
            recipe, times = runs[name]
            made.add(name)
            for need, _ in recipe.needs:
                if need in runs and need not in made:
                    make(need)
            actions.extend(f"get {count * times} {need}" for need, count in recipe.needs if need not in runs)
            actions.extend([recipe.text] * times)

        make(item)
        return tuple(actions)

    def _runs(self, item: str) -> dict[str, tuple[Recipe, int]]:
        """For everything that is crafted on the way: from what, and how often."""
        wanted = {item: 1}
        runs: dict[str, tuple[Recipe, int]] = {}
        while wanted:
            # What is deepest is needed by nothing that is still to come.
            name = min(wanted, key=lambda one: (-self.depth(one), one))
            recipe, times = self._chosen(name, wanted.pop(name))
            runs[name] = (recipe, times)
            for need, count in recipe.needs:
                if not self.can_be_got(need):
                    wanted[need] = wanted.get(need, 0) + count * times
        return runs

    def _chosen(self, item: str, count: int) -> tuple[Recipe, int]:
        """The way with the fewest actions among those of the least depth, and how often it is gone."""
        found = []
        for recipe in self._recipes[item]:
            if self._recipe_depth(recipe) == self.depth(item):
                concrete = replace(recipe, needs=tuple((self._member(name, each), each) for name, each in recipe.needs))
                times = -(-count // recipe.count)
                found.append((self._actions(concrete, times), concrete, times))
        _, chosen, times = min(found)
        return chosen, times

    def _member(self, name: str, count: int) -> str:
        """The member of a group that is made most easily; what is no group is itself."""
        return min(self._groups.get(name, (name,)), key=lambda one: (self.depth(one), self._made_in(one, count), one))

    def _made_in(self, name: str, count: int) -> int:
        """Actions until there are `count` of it, nothing being there yet."""
        if self.can_be_got(name):
            return 1
        return self._actions(*self._chosen(name, count))

    def _actions(self, recipe: Recipe, times: int) -> int:
        return times + sum(self._made_in(name, count * times) for name, count in recipe.needs)

    def _recipe_depth(self, recipe: Recipe) -> int:
        return 1 + max(self.depth(name) for name, _ in recipe.needs)

    def _found_depth(self, item: str) -> int | None:
        """Of an item that is not known yet and has a recipe of which all is: in the nth round those of depth n."""
        if item in self._depths:
            return None
        ready = [one for one in self._recipes[item] if all(self._is_known(name) for name, _ in one.needs)]
        return min(map(self._recipe_depth, ready), default=None)

    def _is_known(self, name: str) -> bool:
        return any(one in self._depths or one not in self._recipes for one in self._groups.get(name, (name,)))
