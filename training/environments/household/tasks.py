"""The six kinds of tasks of ALFRED in a drawn room: which thing, which place, and how someone finds and does it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from training.environments.household.rooms import LAMP, House, Piece, Room, Thing, furnished

LOOK = "look_at_obj_in_light"
TWO = "pick_two_obj_and_place"
CHANGES: Mapping[str, tuple[str, str, str]] = {
    "pick_clean_then_place_in_recep": ("Cleanable", "clean", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "heat", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "cool", "Fridge"),
}
"""By kind of task: what the thing has to be, what is done to it, and with what."""
ROOMS: Mapping[str, Sequence[Room]] = {
    "pick_and_place_simple": ("kitchen", "bathroom", "bedroom", "living room"),
    LOOK: ("bedroom", "living room"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    TWO: ("kitchen", "bathroom", "bedroom", "living room"),
}
TASK_TYPES = tuple(ROOMS)
_TRIES = 200


@dataclass(frozen=True)
class Chore:
    """A task in a room."""

    task_type: str
    house: House
    thing: str
    """Kind of what is to be taken."""
    target: str
    """Kind of furniture that it is to be put on; empty where it is only looked at."""
    wording: int
    """Which of the package's two sentences tells it."""


def drawn(task_type: str, seed: int, holds: Mapping[str, frozenset[str]], able: Mapping[str, frozenset[str]]) -> Chore:
    """The task of a seed; `able` says which things can be cleaned, heated and cooled. Raises ValueError."""
    if task_type not in ROOMS:
        raise ValueError(f"there is no kind of task {task_type!r}; there are {', '.join(TASK_TYPES)}")
    draw = random.Random(f"{task_type} {seed}")
    for _ in range(_TRIES):
        house = furnished(draw.choice(ROOMS[task_type]), holds, draw)
        if choices := list(_choices(task_type, house, holds, able)):
            thing, target = draw.choice(choices)
            return Chore(task_type, house, thing, target, draw.randrange(2))
    raise ValueError(f"no room of {_TRIES} had a task {task_type} with the seed {seed}")


def _choices(
    task_type: str, house: House, holds: Mapping[str, frozenset[str]], able: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """Things and targets, sorted; none where the task would be done before it is begun."""
    kinds = sorted({thing.kind for thing in house.things if thing.kind != LAMP})
    furniture = sorted({piece.kind for piece in house.pieces})
    for kind in kinds:
        if task_type == LOOK:
            yield kind, ""
            continue
        if task_type in CHANGES and kind not in able[CHANGES[task_type][0]]:
            continue
        if task_type == TWO and len(house.of_kind(kind)) < 2:
            continue
        for target in furniture:
            there = [thing for thing in house.of_kind(kind) if thing.at.kind == target]
            if kind in holds.get(target, ()) and not there:
                yield kind, target


Named = Mapping[Piece | Thing, str]
"""How the game calls each."""


def solved(chore: Chore, named: Named, holds: Mapping[str, frozenset[str]]) -> list[str]:
    """What someone does who knows the furniture and not where things are: looks into one place after another."""
    walk = _Walk(named)
    house, target = chore.house, next((one for one in chore.house.pieces if one.kind == chore.target), None)
    wanted = 2 if chore.task_type == TWO else 1
    places = [piece for piece in house.pieces if chore.thing in holds.get(piece.kind, ())]
    for piece in sorted(places, key=lambda one: (one.kind == chore.target, one.opens, named[one])):
        walk.go(piece)
        for thing in [one for one in house.of_kind(chore.thing) if one.at == piece][:wanted]:
            walk.go(piece)
            walk.done.append(f"take {named[thing]} from {named[piece]}")
            _change(chore, thing, walk)
            if target is not None:
                walk.go(target)
                walk.done.append(f"move {named[thing]} to {named[target]}")
            wanted -= 1
        if not wanted:
            break
    return walk.done


class _Walk:
    """Where somebody is, and what was opened."""

    def __init__(self, named: Named) -> None:
        self.named = named
        self.done: list[str] = []
        self._at: Piece | None = None
        self._opened: set[Piece] = set()

    def go(self, piece: Piece, *, opening: bool = True) -> None:
        """Be at that piece, which is open then if it can be."""
        if self._at != piece:
            self._at = piece
            self.done.append(f"go to {self.named[piece]}")
        if opening and piece.opens and piece not in self._opened:
            self._opened.add(piece)
            self.done.append(f"open {self.named[piece]}")


def _change(chore: Chore, thing: Thing, walk: _Walk) -> None:
    """What has to be done with a thing in hand before it is put anywhere."""
    named, house = walk.named, chore.house
    if chore.task_type == LOOK:
        lamp = house.of_kind(LAMP)[0]
        walk.go(lamp.at)
        walk.done.append(f"use {named[lamp]}")
    elif chore.task_type in CHANGES:
        _, verb, kind = CHANGES[chore.task_type]
        machine = next(piece for piece in house.pieces if piece.kind == kind)
        walk.go(machine, opening=False)
        walk.done.append(f"{verb} {named[thing]} with {named[machine]}")
