"""Gold paths of the two TextWorldExpress games whose own ones are walks by chance, another one at each call.

Here rooms are looked through depth first, always in the same order of directions, and a room that was seen is not
entered again but to go back. What has to be put where is read off a path of the package, which is right about that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

SYSTEMATIC = frozenset({"coin", "twc"})
"""Games for which this is needed."""
_OPPOSITE = {"north": "south", "east": "west", "south": "north", "west": "east"}
_ROOM = re.compile(r"You are in the ([a-z ]+)\.")
_CLOSED = re.compile(r"to the (north|east|south|west) you see a closed", re.IGNORECASE)
_OPEN = re.compile(r"to the (north|east|south|west) you see the ([a-z ]+)\.", re.IGNORECASE)
_REVEALED = re.compile(r"revealing the ([a-z ]+)\.")
_PUT = re.compile(r"put (?P<thing>.+) in (?P<place>.+)")

Act = Callable[[str], str]
"""Carries an action out and gives what it brought."""
Visit = Callable[[], bool]
"""Does what is to be done in a room; true where nothing more is to be looked for."""


def searching(act: Act, admissible: Callable[[], Sequence[str]]) -> None:
    """Find the coin and take it."""

    def visit() -> bool:
        if "take coin" in admissible():
            act("take coin")
            return True
        return False

    _explore(act, visit, set())


def tidying(act: Act, admissible: Callable[[], Sequence[str]], path: Iterable[str]) -> None:
    """Take everything that `path` puts somewhere, in a first round; put it there in that round or in a second one."""
    places = {found["thing"]: found["place"] for action in path if (found := _PUT.fullmatch(action))}
    done: set[str] = set()

    def visit() -> bool:
        for thing in sorted(places):
            if f"take {thing}" in admissible() and thing not in done:
                act(f"take {thing}")
        for thing, place in sorted(places.items()):
            if thing in done:
                continue
            put = f"put {thing} in {place}"
            if put not in admissible() and f"open {place}" in admissible() and _held(thing, admissible()):
                act(f"open {place}")
            if put in admissible():
                act(put)
                done.add(thing)
        return len(done) == len(places)

    if not _explore(act, visit, set()):
        _explore(act, visit, set())


def _held(thing: str, admissible: Sequence[str]) -> bool:
    return any(action.startswith(f"put {thing} in ") for action in admissible) or f"drop {thing}" in admissible


def _explore(act: Act, visit: Visit, seen: set[str]) -> bool:
    """Visit this room and all behind it that were not seen; back here unless a visit ended it."""
    text = act("look around")
    if (here := _ROOM.search(text)) is None:
        return True
    seen.add(here[1])
    if visit():
        return True
    closed = {direction.lower() for direction in _CLOSED.findall(text)}
    behind = {direction.lower(): room for direction, room in _OPEN.findall(text)}
    for direction, back in _OPPOSITE.items():
        if direction in closed and (found := _REVEALED.search(act(f"open door to {direction}"))):
            behind[direction] = found[1]
        if behind.get(direction, here[1]) in seen:
            continue
        act(f"move {direction}")
        if _explore(act, visit, seen):
            return True
        act(f"move {back}")
    return False
