"""Whether an annotation can be used: by rules that hold for those of rules and of models alike.

    counts     the sub-tasks have as many actions as the path
    inherits   within a sub-task progress does not drop most of the words of actions that it told; where somebody is,
               what was looked at and what was refused does not last
    future     progress has no word of an action that comes later in the path and was nowhere before
    object     the name of a sub-task shares a word with one of its actions

Words are compared by their letters and digits, short and common ones left out. So a fact may be told in other words
only where it keeps the words of the action, and a fact about an observation may be dropped: progress is a summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pipeline.hierarchy.path import Annotation, Path
from pipeline.hierarchy.verbs import deed

_WORD = re.compile(r"[a-z]+|[0-9]+")
_COMMON = frozenset(
    re.findall(
        r"\S+",
        "a an and are as at by do done for from go goes have holding how i in into is it its no none not now of off on "
        "open or out result that the then there this to up use used was were with you",
    )
)
_MOST_LOST = 0.5
"""Share of the words of what was told of actions that a later summary of the sub-task may have dropped."""


def faults(path: Path, annotation: Annotation) -> tuple[str, ...]:
    """What is wrong with it, each fault in words that begin with the name of its rule; empty for nothing."""
    counted = sum(one.n_actions for one in annotation.subtasks)
    if counted != len(path.steps):
        return (f"counts: the sub-tasks have {counted} actions, the path has {len(path.steps)}",)
    return (*_lost(path, annotation), *_foreseen(path, annotation), *_nameless(path, annotation))


def flags(annotation: Annotation) -> tuple[bool, ...]:
    """For each action, whether its sub-task is finished by it: true on the last action of each, and nowhere else."""
    return tuple(at == one.n_actions - 1 for one in annotation.subtasks for at in range(one.n_actions))


def words(text: str) -> frozenset[str]:
    """The words of a text that say something."""
    return frozenset(word for word in _WORD.findall(text.lower()) if word not in _COMMON and len(word) > 1)


def _segments(annotation: Annotation) -> Iterator[range]:
    start = 0
    for one in annotation.subtasks:
        yield range(start, start + one.n_actions)
        start += one.n_actions


def _lost(path: Path, annotation: Annotation) -> Iterator[str]:
    for segment in _segments(annotation):
        told: frozenset[str] = frozenset()
        for at in segment:
            now = words(annotation.progress[at])
            gone = told - now
            if told and len(gone) > _MOST_LOST * len(told):
                yield f"inherits: after action {at} progress lost {_some(gone)}"
            done = [path.steps[number] for number in segment if number <= at]
            told = now & words(" ".join(step.action for step in done if not step.rejected and _lasts(step.action)))


def _lasts(action: str) -> bool:
    return deed(action).kind not in ("navigate", "observe", "wait") and not action.startswith("cd ")


def _foreseen(path: Path, annotation: Annotation) -> Iterator[str]:
    later: list[frozenset[str]] = [frozenset()]
    for step in reversed(path.steps):
        later.append(later[-1] | words(step.action))
    later.reverse()
    known = words(path.task)
    segment_names = [one.name for one in annotation.subtasks for _ in range(one.n_actions)]
    for at, step in enumerate(path.steps):
        known |= words(step.observation) | words(step.action) | words(step.result)
        told = words(annotation.progress[at]) - words(segment_names[at])
        if ahead := (told & later[at + 1]) - known:
            yield f"future: after action {at} progress names {_some(ahead)}, which comes later"


def _nameless(path: Path, annotation: Annotation) -> Iterator[str]:
    for number, (one, segment) in enumerate(zip(annotation.subtasks, _segments(annotation), strict=True)):
        done = words(" ".join(path.steps[at].action for at in segment))
        if done and not words(one.name) & done:
            yield f"object: sub-task {number} is called {one.name!r} and none of its actions is about that"


def _some(found: Iterable[str]) -> str:
    return ", ".join(sorted(found)[:5])
