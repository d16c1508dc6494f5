"""The annotator that asks no model: which rules are for which environment."""

from __future__ import annotations

from pipeline.hierarchy.by_phases import by_phases
from pipeline.hierarchy.by_verbs import by_crafting, by_verbs
from pipeline.hierarchy.path import Annotation, Path


def annotate(path: Path) -> Annotation:
    """Sub-tasks and progress of a path with at least one action, the same each time."""
    if path.environment == "terminal":
        return by_phases(path)
    return by_crafting(path) if path.environment == "textcraft" else by_verbs(path)
