"""Divides a path through a game by the kinds of its actions, and tells progress by what they did.

A cut is where the kind changes and after MOST_ACTIONS of one kind. Looking around belongs to what comes before it, a
focus to the taking beside it, and an action that would be alone to what comes next in that place, or came before. In
TextCraft every craft closes a sub-task and nothing else does. A sub-task is named by the object of its main action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.hierarchy.path import Annotation, Path, PathStep, SubTask
from pipeline.hierarchy.verbs import Deed, Kind, deed

VERBS = "verbs@1"
CRAFTING = "crafting@1"
MOST_ACTIONS = 8
"""Of a sub-task."""
_RESULT = 60
"""Characters of the last result that are kept."""
_HELD = 4
"""Things in hand that are named, the last ones."""
_TOGETHER: dict[Kind, Kind] = {"focus": "take", "operate": "put"}
"""Kinds that count as another one where they are beside it."""


def by_verbs(path: Path) -> Annotation:
    """The annotation of a path through any game."""
    deeds = [deed(step.action) for step in path.steps]
    groups = _divided(deeds)
    return Annotation(annotator=VERBS, subtasks=_named(deeds, groups), progress=_progress(path.steps, deeds, groups))


def by_crafting(path: Path) -> Annotation:
    """The annotation of a path through TextCraft."""
    deeds = [deed(step.action) for step in path.steps]
    groups: list[int] = []
    size = 0
    for number, one in enumerate(deeds):
        size += 1
        # One that was refused made nothing.
        if (one.kind == "craft" and not path.steps[number].rejected) or number == len(deeds) - 1:
            groups.append(size)
            size = 0
    return Annotation(annotator=CRAFTING, subtasks=_named(deeds, groups), progress=_progress(path.steps, deeds, groups))


def _divided(deeds: Sequence[Deed]) -> list[int]:
    """Lengths of the groups, in order."""
    kinds: list[Kind] = []
    for number, one in enumerate(deeds):
        kind = one.kind
        beside = {kinds[-1]} if kinds else set()
        if number + 1 < len(deeds):
            beside.add(deeds[number + 1].kind)
        if kind in _TOGETHER and _TOGETHER[kind] in beside:
            kind = _TOGETHER[kind]
        if kind == "observe" and kinds:
            kind = kinds[-1]
        kinds.append(kind)
    groups: list[tuple[Kind, int]] = []
    for kind in kinds:
        if groups and kind == groups[-1][0] and groups[-1][1] < MOST_ACTIONS:
            groups[-1] = (kind, groups[-1][1] + 1)
        else:
            groups.append((kind, 1))
    return [size for _, size in _joined(groups)]


def _joined(groups: Sequence[tuple[Kind, int]]) -> list[tuple[Kind, int]]:
    """The same without groups of one action, as far as there is one beside them in the same place."""
    found: list[tuple[Kind, int]] = []
    number = 0
    while number < len(groups):
        kind, size = groups[number]
        after = groups[number + 1] if number + 1 < len(groups) else None
        if size == 1 and after is not None and _may_join((kind, size), after):
            found.append((after[0], size + after[1]))
            number += 2
            continue
        if size == 1 and found and _may_join(found[-1], (kind, size)):
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((kind, size))
        number += 1
    return found


def _may_join(first: tuple[Kind, int], second: tuple[Kind, int]) -> bool:
    return "navigate" not in (first[0], second[0]) and first[1] + second[1] <= MOST_ACTIONS


def _named(deeds: Sequence[Deed], groups: Sequence[int]) -> tuple[SubTask, ...]:
    found, start = [], 0
    for size in groups:
        found.append(SubTask(name=_main(deeds[start : start + size]).name, n_actions=size))
        start += size
    return tuple(found)


def _main(deeds: Sequence[Deed]) -> Deed:
    """The last action that does something; of those that only look, the last one."""
    doing = [one for one in deeds if one.kind not in ("observe", "wait", "other") and one.verb != "close"]
    return (doing or list(deeds))[-1]


@dataclass
class _World:
    """What is known of the place and of what is held, from the actions alone."""

    place: str = ""
    held: list[str] = field(default_factory=list)

    def take(self, one: Deed, step: PathStep) -> None:
        if step.rejected:
            return
        if one.kind == "navigate" and one.verb == "go to" and not step.action.lower().startswith("open"):
            self.place = one.thing
        elif one.kind == "take" and one.thing not in self.held:
            self.held.append(one.thing)
        elif one.kind == "put" and one.thing in self.held:
            self.held.remove(one.thing)


def _progress(steps: Sequence[PathStep], deeds: Sequence[Deed], groups: Sequence[int]) -> tuple[str, ...]:
    world, told, start = _World(), [], 0
    for size in groups:
        done: dict[str, None] = {}
        for number in range(start, start + size):
            step = steps[number]
            world.take(deeds[number], step)
            if not step.rejected:
                done[" ".join(step.action.split())] = None
            told.append(_summary(world, list(done), step))
        start += size
    return tuple(told)


def _summary(world: _World, done: Sequence[str], step: PathStep) -> str:
    parts = [f"at {world.place}"] if world.place else []
    if world.held:
        parts.append(f"holding {', '.join(world.held[-_HELD:])}")
    if done:
        parts.append(f"done: {', '.join(done)}")
    parts.append(f"result: {shortened(step.result, _RESULT)}")
    return "; ".join(parts)


def shortened(text: str, most: int) -> str:
    """The beginning of a text in one line, cut at a word."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"
