"""Which instances are rated: equally many from each bin of repository scores, so that bins can be compared."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pipeline.types import content_id

BINS = ("< 0.2", "0.2-0.5", "> 0.5")
"""Of the score of the repository; the paper compares the same three."""
_LOW, _HIGH = 0.2, 0.5

T = TypeVar("T")


def bin_of(score: float) -> str:
    if score < _LOW:
        return BINS[0]
    return BINS[1] if score <= _HIGH else BINS[2]


def stratified(items: Mapping[str, T], bins: Mapping[str, str], per_bin: int, seed: int) -> Sequence[T]:
    """At most `per_bin` items of each bin, mixed so that their order tells nothing; the same ones for the same seed.

    `items` by instance id; those without a bin are left out.
    """
    chosen: list[str] = []
    for name in BINS:
        ids = sorted(instance_id for instance_id in items if bins.get(instance_id) == name)
        random.Random(f"{seed}/{name}").shuffle(ids)
        chosen += ids[:per_bin]
    random.Random(seed).shuffle(chosen)
    return [items[instance_id] for instance_id in chosen]


def blind_name(instance_id: str, seed: int) -> str:
    """What an instance is called on a sheet: the id itself leads to its repository."""
    return content_id("item", seed, instance_id)
