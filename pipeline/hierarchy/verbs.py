"""What kind of thing an action in a game is, and what it is done to, by the words of the games that are played here.

A kind is what sub-tasks are cut by. An action that no rule knows is of the kind `other`, with its own words as object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "navigate",
    "take",
    "focus",
    "put",
    "operate",
    "change",
    "wire",
    "mix",
    "wait",
    "observe",
    "craft",
    "search",
    "other",
]


@dataclass(frozen=True)
class Deed:
    """An action as the rules read it."""

    kind: Kind
    verb: str
    thing: str = ""
    """What it is done to; empty where there is nothing."""
    place: str = ""
    """Where it goes to, or what it is done with."""

    @property
    def name(self) -> str:
        """As a sub-task: what is done, and to what."""
        where = f" {_JOINED.get(self.verb, 'in')} {self.place}" if self.place else ""
        return f"{self.verb} {self.thing}{where}".strip()


_JOINED = {"go to": "", "connect": "to", "use": "on", "heat": "with", "cool": "with", "clean": "with", "take": "from"}

_PATTERNS: tuple[tuple[Kind, str, str], ...] = (
    ("navigate", "go to", r"(?:go to|go|enter|move to) (?:the )?(?P<thing>.+)"),
    ("navigate", "go", r"move (?P<thing>north|south|east|west|up|down)"),
    ("navigate", "go to", r"open door to (?P<thing>.+)"),
    ("navigate", "close door to", r"close door to (?P<thing>.+)"),
    ("focus", "focus on", r"focus on (?P<thing>.+)"),
    ("take", "get", r"get (?P<thing>\d+ .+)"),
    ("take", "take", r"(?:take|pick up|get) (?P<thing>.+?)(?: from (?P<place>.+))?"),
    ("craft", "craft", r"craft (?P<thing>.+?) using .+"),
    ("wire", "connect", r"connect (?P<thing>.+) to (?P<place>.+)"),
    ("wire", "disconnect", r"disconnect (?P<thing>.+)"),
    ("mix", "mix", r"(?:mix|chemically mix) (?P<thing>.+)"),
    ("wait", "wait", r"wait\d*"),
    ("change", "heat", r"heat (?P<thing>.+?)(?: with (?P<place>.+))?"),
    ("change", "cool", r"cool (?P<thing>.+?)(?: with (?P<place>.+))?"),
    ("change", "clean", r"clean (?P<thing>.+?)(?: with (?P<place>.+))?"),
    ("change", "cook", r"cook (?P<thing>.+?)(?: in (?P<place>.+))?"),
    ("change", "cut", r"(?:cut|slice|chop|dice) (?P<thing>.+)"),
    ("change", "eat", r"eat (?P<thing>.+)"),
    ("operate", "use", r"use (?P<thing>.+?)(?: on (?P<place>.+))?"),
    ("put", "put", r"(?:put|pour|dunk|insert|move) (?P<thing>.+?) (?:into|in/on|onto|in|on|to) (?P<place>.+)"),
    ("put", "put down", r"(?:put down|drop) (?P<thing>.+)"),
    ("operate", "activate", r"(?:activate|turn on|toggle) (?P<thing>.+)"),
    ("operate", "deactivate", r"(?:deactivate|turn off) (?P<thing>.+)"),
    ("operate", "open", r"open (?P<thing>.+)"),
    ("operate", "close", r"close (?P<thing>.+)"),
    ("operate", "flush", r"flush (?P<thing>.+)"),
    ("observe", "read", r"read (?P<thing>.+)"),
    ("observe", "look at", r"(?:examine|smell|look at|look in|look on|inspect) (?P<thing>.+)"),
    ("observe", "look around", r"look around|look|inventory|task|help"),
    ("search", "search", r"search\[(?P<thing>.+)\]"),
    ("search", "choose", r"click\[(?P<thing>.+)\]"),
)
_COMPILED = tuple((kind, verb, re.compile(pattern, re.IGNORECASE)) for kind, verb, pattern in _PATTERNS)


def deed(action: str) -> Deed:
    """What an action is."""
    text = " ".join(action.split())
    for kind, verb, pattern in _COMPILED:
        if found := pattern.fullmatch(text):
            parts = found.groupdict()
            return Deed(kind, verb, parts.get("thing") or "", parts.get("place") or "")
    return Deed("other", "do", text)
