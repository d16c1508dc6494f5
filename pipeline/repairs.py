"""What is changed after a failed build: rules from what the log says to another recipe. The first that fits counts.

A rule changes the recipe, never the rendered text, and is applied once to a candidate. Why a build failed is classed in
sandbox/building/build_failures.py; a model's repair is not here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.checkout import Tree
from pipeline.dockerfiles import Candidate
from pipeline.recipes import Recipe, Toolchain, render
from sandbox.types import ImageBuild

logger = logging.getLogger(__name__)

Change = Callable[[Recipe, re.Match[str], Tree], Recipe | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`change` gives the next recipe for a log in which `pattern` is found; None when it has nothing to change."""

    name: str
    pattern: re.Pattern[str]
    change: Change


def repaired(candidate: Candidate, build: ImageBuild, tree: Tree, toolchain: Toolchain) -> Candidate | None:
    """The candidate to try after `build` failed, None when no rule fits or `candidate` was not made from a recipe."""
    if candidate.recipe is None:
        return None
    for rule in RULES:
        if rule.name in candidate.repairs or (found := rule.pattern.search(build.log_tail)) is None:
            continue
        recipe = rule.change(candidate.recipe, found, tree)
        if recipe is None or recipe == candidate.recipe:
            continue
        try:
            dockerfile, files = render(recipe, tree, toolchain)
        except ValueError as error:
            logger.info("repair %s of %s is not possible: %s", rule.name, candidate.spec.name, error)
            continue
        spec = candidate.spec.model_copy(update={"dockerfile": dockerfile, "context_files": files})
        return Candidate("repaired", spec, recipe, (*candidate.repairs, rule.name))
    return None


def _command_package(recipe: Recipe, found: re.Match[str], tree: Tree) -> Recipe | None:
    return recipe.with_packages(found["command"])


RULES: tuple[Rule, ...] = (
    Rule(
        "missing_command",
        re.compile(r"(?:sh|bash): (?:\d+|line \d+): (?P<command>[\w.+-]+): (?:command )?not found"),
        _command_package,
    ),
)
