"""The annotator that asks no model: which rules are for which environment."""

from __future__ import annotations

from pipeline.hierarchy.by_phases import PHASES, by_phases
from pipeline.hierarchy.by_verbs import CRAFTING, VERBS, by_crafting, by_verbs
from pipeline.hierarchy.path import Annotation, Path

NAMES = (PHASES, VERBS, CRAFTING)
"""What the annotations of the rules are signed with."""


def annotate(path: Path) -> Annotation:
    """Sub-tasks and progress of a path with at least one action, the same each time."""
    if path.environment == "terminal":
        return by_phases(path)
    return by_crafting(path) if path.environment == "textcraft" else by_verbs(path)


def name_of(environment: str) -> str:
    """What the annotation of a path in that environment is signed with."""
    return {"terminal": PHASES, "textcraft": CRAFTING}.get(environment, VERBS)
