"""How far two annotations of the same paths agree: where they cut, and in what words they say it.

Pk: Beeferman, Berger, Lafferty 1999, "Statistical Models for Text Segmentation"; WindowDiff: Pevzner and Hearst 2002,
"A Critique and Improvement of an Evaluation Metric for Text Segmentation". Both are shares of windows that are judged
differently, 0 for equal divisions; the window is half the mean length of the first annotation's sub-tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.hierarchy.path import Annotation
from pipeline.types import Record


class Agreement(Record):
    """Means over the paths that both annotated."""

    first: str
    second: str
    paths: int
    boundary_precision: float
    """Share of the second's cuts that the first has too."""
    boundary_recall: float
    boundary_f1: float
    pk: float
    window_diff: float
    name_f1: float
    """Overlap of words between the names of the sub-tasks that an action belongs to, mean over actions."""
    progress_f1: float
    """The same of the progress after an action."""


def agreement(pairs: Iterable[tuple[Annotation, Annotation]]) -> Agreement:
    """Of two annotators over a sample. Raises ValueError for no pair, and for annotations of different lengths."""
    rows: list[tuple[float, ...]] = []
    names = ("", "")
    for first, second in pairs:
        if len(first.progress) != len(second.progress):
            raise ValueError(f"{len(first.progress)} and {len(second.progress)} actions: these are of different paths")
        names = (first.annotator, second.annotator)
        ours, theirs = cuts(first), cuts(second)
        precision, recall = _share(ours & theirs, theirs), _share(ours & theirs, ours)
        rows.append(
            (
                precision,
                recall,
                0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall),
                pk(first, second),
                window_diff(first, second),
                _mean([overlap(a, b) for a, b in zip(_names(first), _names(second), strict=True)]),
                _mean([overlap(a, b) for a, b in zip(first.progress, second.progress, strict=True)]),
            )
        )
    if not rows:
        raise ValueError("no path is annotated by both")
    means = [round(_mean(column), 4) for column in zip(*rows, strict=True)]
    fields = ("boundary_precision", "boundary_recall", "boundary_f1", "pk", "window_diff", "name_f1", "progress_f1")
    told = dict(zip(fields, means, strict=True))
    return Agreement.model_validate({"first": names[0], "second": names[1], "paths": len(rows), **told})


def cuts(annotation: Annotation) -> frozenset[int]:
    """Numbers of the actions that begin a sub-task, the first action's left out."""
    found, at = set(), 0
    for one in annotation.subtasks[:-1]:
        at += one.n_actions
        found.add(at)
    return frozenset(found)


def pk(first: Annotation, second: Annotation) -> float:
    """Share of windows whose ends lie in one sub-task by one annotation only."""
    ours, theirs, width = _labels(first), _labels(second), _window(first)
    wrong = [(ours[at] == ours[at + width]) != (theirs[at] == theirs[at + width]) for at in range(len(ours) - width)]
    return _mean([float(one) for one in wrong])


def window_diff(first: Annotation, second: Annotation) -> float:
    """Share of windows in which the annotations have different numbers of cuts."""
    ours, theirs, width = _labels(first), _labels(second), _window(first)
    wrong = [ours[at + width] - ours[at] != theirs[at + width] - theirs[at] for at in range(len(ours) - width)]
    return _mean([float(one) for one in wrong])


def overlap(one: str, other: str) -> float:
    """F1 of the words of two texts, as bags; 1 for two without any."""
    ours, theirs = (Counter(re.findall(r"\w+", text.lower())) for text in (one, other))
    shared = (ours & theirs).total()
    total = ours.total() + theirs.total()
    return 1.0 if total == 0 else 2 * shared / total


def _labels(annotation: Annotation) -> list[int]:
    return [number for number, one in enumerate(annotation.subtasks) for _ in range(one.n_actions)]


def _names(annotation: Annotation) -> list[str]:
    return [one.name for one in annotation.subtasks for _ in range(one.n_actions)]


def _window(annotation: Annotation) -> int:
    return max(1, round(len(annotation.progress) / len(annotation.subtasks) / 2))


def _share(part: frozenset[int], whole: frozenset[int]) -> float:
    return len(part) / len(whole) if whole else 1.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
