"""Scores by rules: what the text of a task and the evidence of its gates show.

Coarse on purpose, the same for every task, and explained point by point; what they miss is for models and people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from pipeline.quality.ratings import HIGHEST, LOWEST, Rating, Scores
from pipeline.types import TaskInstance

RATER = "rules@1"
LEAST_WORDS = 10
ENOUGH_ASSERTIONS = 3
_UNFINISHED = re.compile(r"\bTODO\b|\bFIXME\b|\blorem ipsum\b|<[a-z][a-z_ -]*>|\.\.\.\s*$", re.IGNORECASE)
_FORM = re.compile(
    r"\b(?:json|csv|tsv|xml|html|sorted|ascending|descending|order(?:ed)?|exactly|each line|per line|one line|columns?"
    r"|header|decimals?|rounded|bytes|encoding|utf-8|mode|format|keys?|integers?|pixels?|hz|status|named|called)\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"^/(?:[\w.+@-]+/)*[\w.+@-]+$")
_PLACE = re.compile(r"(?<![\w/])(?:/[\w.+@-]+)+|\b[\w-]+\.[a-z][a-z0-9]{0,5}\b")


def rate(instance: TaskInstance, passed: Collection[str], flake_rate: float | None) -> Rating:
    """`passed` are the names of the gates that the instance passed."""
    trees = [ast.parse(file.content) for file in instance.verifier.files if file.path.endswith(".py")]
    return Rating(
        instance_id=instance.instance_id,
        rater=RATER,
        kind="rules",
        scores=Scores(
            task_soundness=_points(
                {"noop", "oracle"} <= set(passed),
                "weak_solutions" in passed,
                len(instance.instruction.split()) >= LEAST_WORDS,
                not _UNFINISHED.search(instance.instruction),
            ),
            evaluability=_points(
                any(_compares(one) for tree in trees for one in _assertions(tree)),
                sum(1 for tree in trees for _ in _assertions(tree)) >= ENOUGH_ASSERTIONS,
                flake_rate == 0,
                "weak_solutions" in passed,
            ),
            information_sufficiency=_share(list(_judged_paths(trees)), instance.instruction),
            behavioural_constrainedness=_points(
                bool(_FORM.search(instance.instruction)),
                bool(_PLACE.search(instance.instruction)),
                "other_solutions" in passed,
                not _dictates(instance),
            ),
        ),
    )


def _points(*met: bool) -> int:
    """One for nothing, one more for each that is met."""
    return min(HIGHEST, LOWEST + sum(met))


def _share(paths: list[str], instruction: str) -> int:
    """How many of the judged paths the instruction names, by their name or by a folder that it names."""
    named = sum(_is_named(path, instruction) for path in paths)
    whole = named / len(paths) if paths else 1.0
    return round(LOWEST + (HIGHEST - LOWEST) * whole)


def _is_named(path: str, instruction: str) -> bool:
    pure = PurePosixPath(path)
    return pure.name in instruction or any(f"{parent}" in instruction for parent in pure.parents if parent.name)


def _judged_paths(trees: list[ast.Module]) -> Iterator[str]:
    found = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _PATH.match(node.value)
    }
    # A path that another one lies below is named by that one.
    yield from sorted(path for path in found if not any(other.startswith(f"{path}/") for other in found))


def _assertions(tree: ast.Module) -> Iterator[ast.Assert]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Assert))


def _compares(assertion: ast.Assert) -> bool:
    """Whether content is compared: more than that something is there."""
    return any(isinstance(node, ast.Compare) for node in ast.walk(assertion.test))


def _dictates(instance: TaskInstance) -> bool:
    """Whether a line of code in the instruction begins like a command of the solution, with an argument."""
    starts = {" ".join(line.split()[:2]) for step in instance.solution for line in step.splitlines() if " " in line}
    code = re.findall(r"`([^`\n]+)`", instance.instruction)
    return any(" ".join(one.split()[:2]) in starts for one in code)
