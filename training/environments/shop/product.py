"""One thing that can be bought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """As its page shows it, and what only the reward knows."""

    asin: str
    """Its name in the shop, which is also the button that leads to it."""
    title: str
    category: str
    """The coarsest kind of thing, e.g. `tea`."""
    path: tuple[str, ...]
    """Departments, from the outermost one."""
    query: str
    """What one calls such a thing, e.g. `green tea`."""
    attributes: tuple[str, ...]
    """What is true of it, in lower case, e.g. `caffeine free`."""
    options: Mapping[str, tuple[str, ...]]
    """What can be chosen: values in lower case by name."""
    price: float
    """Dollars."""
    description: str
    features: tuple[str, ...]
    reviews: tuple[str, ...]
