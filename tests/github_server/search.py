"""Search over the world: qualifiers, the raw total, the cap of 1,000 results, pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from tests.github_server.world import KINDS, LANGUAGES, World, epoch

CAP = 1_000
_QUALIFIER = re.compile(r'(\w+):("[^"]*"|\S+)')
_RANGE = re.compile(r"^(>=|<=|>|<)?(.*)$")

Mask = npt.NDArray[np.bool_]


class InvalidQuery(Exception):
    """The API answers 422."""


@dataclass(frozen=True)
class Found:
    total: int
    """All matches, beyond the cap too."""
    ids: list[int]
    """Those of the page."""


def search(world: World, query: str, page: int, per_page: int) -> Found:
    """Raises InvalidQuery for what the API does not understand, and for pages behind the cap."""
    if (page - 1) * per_page >= CAP:
        raise InvalidQuery("Only the first 1000 search results are available")
    wanted: list[tuple[str, str]] = [(name, value.strip('"')) for name, value in _QUALIFIER.findall(query)]
    low, high = 0, world.count
    forks = "false"
    masks: list[Callable[[slice], Mask]] = []
    for name, value in wanted:
        if name == "created":
            first, last = _bounds(value, _moment)
            low = max(low, int(np.searchsorted(world.created, first, "left")))
            high = min(high, int(np.searchsorted(world.created, last, "right")))
        elif name == "fork":
            forks = value
        else:
            masks.append(_mask(world, name, value))
    part = slice(low, max(low, high))
    chosen = np.ones(part.stop - part.start, np.bool_)
    fork = world.kind[part] == KINDS.index("fork")
    chosen &= fork if forks == "only" else ~fork if forks != "true" else chosen
    for mask in masks:
        chosen &= mask(part)
    found = np.nonzero(chosen)[0]
    start = (page - 1) * per_page
    ids = found[start : min(start + per_page, CAP)] + part.start + 1
    return Found(int(found.size), [int(i) for i in ids])


def _mask(world: World, name: str, value: str) -> Callable[[slice], Mask]:
    if name == "language":
        names = [language.lower() for language in LANGUAGES]
        if value.lower() not in names:
            raise InvalidQuery(f"the language {value} is unknown")
        number = names.index(value.lower())
        return lambda part: world.language[part] == number
    if name == "archived":
        archived = value == "true"
        return lambda part: (world.kind[part] == KINDS.index("archived")) == archived
    columns = {"pushed": world.pushed, "size": world.size, "stars": world.stars}
    if name not in columns:
        raise InvalidQuery(f"the qualifier {name} is unknown")
    first, last = _bounds(value, _moment if name == "pushed" else _number)
    column = columns[name]
    return lambda part: (column[part] >= first) & (column[part] <= last)


def _bounds(value: str, read: Callable[[str], tuple[int, int]]) -> tuple[int, int]:
    """First and last value of `a..b`, `>=a`, `<a` … Both ends of `..` belong to the range; `*` is open."""
    if ".." in value:
        low, high = value.split("..")
        return (-(2**62) if low == "*" else read(low)[0]), (2**62 if high == "*" else read(high)[1])
    match = _RANGE.match(value)
    assert match is not None
    sign, text = match.groups()
    first, last = read(text)
    if sign == ">=":
        return first, 2**62
    if sign == ">":
        return last + 1, 2**62
    if sign == "<=":
        return -(2**62), last
    if sign == "<":
        return -(2**62), first - 1
    return first, last


def _number(text: str) -> tuple[int, int]:
    if not text.isdigit():
        raise InvalidQuery(f"{text} is no number")
    return int(text), int(text)


def _moment(text: str) -> tuple[int, int]:
    """First and last second of a date or a moment."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidQuery(f"{text} is no date") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    first = epoch(moment)
    return first, first if "T" in text else epoch(moment + timedelta(days=1)) - 1
