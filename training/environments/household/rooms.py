"""Rooms with furniture and things, drawn from a seed: what a task takes place in. Knows no PDDL and no package."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Room = Literal["kitchen", "bathroom", "bedroom", "living room"]

OPENABLE = frozenset({"Fridge", "Cabinet", "Microwave", "Drawer", "Safe"})
LAMP = "DeskLamp"

_FURNITURE: Mapping[Room, Mapping[str, tuple[int, int]]] = {
    "kitchen": {
        "Cabinet": (2, 5),
        "CounterTop": (1, 3),
        "DiningTable": (1, 1),
        "Drawer": (1, 4),
        "Fridge": (1, 1),
        "GarbageCan": (1, 1),
        "Microwave": (1, 1),
        "SinkBasin": (1, 1),
        "StoveBurner": (2, 4),
        "Shelf": (0, 2),
    },
    "bathroom": {
        "Cabinet": (1, 4),
        "CounterTop": (1, 1),
        "Drawer": (0, 3),
        "GarbageCan": (1, 1),
        "SinkBasin": (1, 2),
        "Shelf": (0, 2),
        "Toilet": (1, 1),
    },
    "bedroom": {
        "Bed": (1, 1),
        "Desk": (1, 2),
        "Drawer": (2, 5),
        "Dresser": (0, 1),
        "GarbageCan": (1, 1),
        "Safe": (0, 1),
        "Shelf": (1, 4),
        "SideTable": (1, 2),
    },
    "living room": {
        "ArmChair": (1, 2),
        "CoffeeTable": (1, 1),
        "Drawer": (0, 4),
        "GarbageCan": (1, 1),
        "Shelf": (0, 4),
        "SideTable": (1, 3),
        "Sofa": (1, 1),
    },
}
"""Least and most of each piece."""

_THINGS: Mapping[Room, Sequence[str]] = {
    "kitchen": (
        *("Apple", "Bowl", "Bread", "ButterKnife", "Cup", "DishSponge", "Egg", "Fork", "Kettle", "Knife", "Ladle"),
        *("Lettuce", "Mug", "Pan", "PepperShaker", "Plate", "Pot", "Potato", "SaltShaker", "SoapBottle", "Spatula"),
        *("Spoon", "Tomato", "Vase", "WineBottle"),
    ),
    "bathroom": ("Candle", "Cloth", "SoapBar", "SoapBottle", "SprayBottle", "TissueBox", "ToiletPaper"),
    "bedroom": (
        *("AlarmClock", "Book", "Bowl", "CD", "CellPhone", "CreditCard", "KeyChain", "Laptop", "Mug", "Pen", "Pencil"),
        *("Pillow", "Statue"),
    ),
    "living room": (
        *("Book", "Box", "CreditCard", "KeyChain", "Laptop", "Newspaper", "RemoteControl", "Statue", "TissueBox"),
        *("Vase", "Watch", "WateringCan", "Pillow"),
    ),
}
_CROWDED = (1, 3)
"""Least and most of a thing that is there at all."""
_PRESENT = 0.75
"""Chance of a thing to be there at all."""


@dataclass(frozen=True)
class Piece:
    """A piece of furniture."""

    kind: str
    number: int

    @property
    def opens(self) -> bool:
        return self.kind in OPENABLE


@dataclass(frozen=True)
class Thing:
    """Something that can be taken, or a lamp."""

    kind: str
    number: int
    at: Piece


@dataclass(frozen=True)
class House:
    """One room as it is at first."""

    room: Room
    pieces: tuple[Piece, ...]
    things: tuple[Thing, ...]

    def of_kind(self, kind: str) -> list[Thing]:
        return [thing for thing in self.things if thing.kind == kind]


def furnished(room: Room, holds: Mapping[str, frozenset[str]], draw: random.Random) -> House:
    """A room by chance; `holds` says what each kind of furniture can hold."""
    pieces = tuple(
        Piece(kind, number)
        for kind, (least, most) in _FURNITURE[room].items()
        for number in range(1, draw.randint(least, most) + 1)
    )
    things: list[Thing] = []
    for kind in _THINGS[room]:
        places = [piece for piece in pieces if kind in holds.get(piece.kind, ())]
        if places and draw.random() < _PRESENT:
            count = draw.randint(*_CROWDED)
            things += [Thing(kind, number, draw.choice(places)) for number in range(1, count + 1)]
    if room in ("bedroom", "living room"):
        tables = [piece for piece in pieces if piece.kind in ("Desk", "SideTable")]
        things.append(Thing(LAMP, 1, draw.choice(tables)))
    return House(room, pieces, tuple(things))
