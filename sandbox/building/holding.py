"""How much an engine holds, and how much of it `Room.clean` would remove, without removing anything."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.building.cleaning import Cleaning
from sandbox.building.room import Room
from sandbox.engine import address
from sandbox.streams import engine_call


@dataclass(frozen=True)
class Holding:
    """Bytes of an engine."""

    held: int
    """Layers of all images, ours or not, and the cache of BuildKit where the engine is ours."""
    removable: int
    """At least so much; layers that several removable images share are not counted."""


def holding(room: Room) -> Holding:
    """Raises SandboxUnavailable."""
    owned = (chosen := address(room._data)) is not None and chosen.owned
    with engine_call("asking the engine what it holds"):
        found = room._client.api.df()
    cache = sum(int(one["Size"]) for one in found.get("BuildCache") or ()) if owned else 0
    cleaning = Cleaning(room._client, owned=owned, last_used=room._last_used, keep=room._keep)
    keep = room._keep() if room._keep else set()
    leaving = {*cleaning._unnamed(keep, True), *(cleaning._unneeded(keep) if room._keep else ())}
    alone = sum(
        max(0, int(image["Size"]) - max(0, int(image.get("SharedSize") or 0)))
        for image in found.get("Images") or ()
        if image["Id"] in leaving
    )
    return Holding(held=int(found.get("LayersSize") or 0) + cache, removable=alone + cache)
