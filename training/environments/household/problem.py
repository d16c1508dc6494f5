"""A task in a room as a PDDL problem in the domain of ALFWorld.

Names are as the package's own games have them: `Kind_bar_NUMBER`, a basin with the sink before it. The metric has to
follow the goal, and nobody stands at a piece of furniture at first.
"""

from __future__ import annotations

from collections.abc import Mapping

from training.environments.household.rooms import LAMP, Piece, Thing
from training.environments.household.tasks import Chore

_ABLE = {"Cleanable": "cleanable", "Heatable": "heatable", "Coolable": "coolable"}
START = "loc_bar_0"


def piece_id(piece: Piece) -> str:
    """The name of a piece of furniture in the problem; games make it lower case."""
    if piece.kind == "SinkBasin":
        return f"Sink_bar_{piece.number}_bar_SinkBasin"
    return f"{piece.kind}_bar_{piece.number}"


def thing_id(thing: Thing) -> str:
    return f"{thing.kind}_bar_{thing.number}"


def problem(chore: Chore, goal: str, holds: Mapping[str, frozenset[str]], able: Mapping[str, frozenset[str]]) -> str:
    """The text of the problem; `goal` is that of the package, with its kinds filled in and the last bracket open."""
    house = chore.house
    places = {piece: f"loc_bar_{number}" for number, piece in enumerate(house.pieces, start=1)}
    kinds = sorted({thing.kind for thing in house.things})
    otypes = sorted({*kinds, "Knife", "ButterKnife", chore.thing})
    rtypes = sorted({*(piece.kind for piece in house.pieces), "SinkBasin", "Microwave", "Fridge"})
    objects = [
        "agent1 - agent",
        *(f"{kind}Type - otype" for kind in otypes),
        *(f"{kind}Type - rtype" for kind in rtypes),
        *(f"{place} - location" for place in (START, *places.values())),
        *(f"{piece_id(piece)} - receptacle" for piece in house.pieces),
        *(f"{thing_id(thing)} - object" for thing in house.things),
    ]
    facts = ["(= (total-cost) 0)", f"(atLocation agent1 {START})"]
    for piece, place in places.items():
        name = piece_id(piece)
        facts += [f"(receptacleType {name} {piece.kind}Type)", f"(receptacleAtLocation {name} {place})"]
        if piece.opens:
            facts.append(f"(openable {name})")
    for thing in house.things:
        name = thing_id(thing)
        facts += [
            f"(objectType {name} {thing.kind}Type)",
            f"(inReceptacle {name} {piece_id(thing.at)})",
            f"(objectAtLocation {name} {places[thing.at]})",
            f"({'toggleable' if thing.kind == LAMP else 'pickupable'} {name})",
        ]
        facts += [f"({predicate} {name})" for word, predicate in _ABLE.items() if thing.kind in able[word]]
    facts += [
        f"(canContain {kind}Type {held}Type)" for kind in rtypes for held in otypes if held in holds.get(kind, ())
    ]
    lines = "\n  ".join(objects), "\n  ".join(facts)
    return (
        f"(define (problem household)\n (:domain alfred)\n (:objects\n  {lines[0]})\n (:init\n  {lines[1]})\n"
        f"{goal}\n (:metric minimize (total-cost)))\n"
    )
