"""Makes the catalogue: the same products in every process, each drawn from a seed of its own."""

from __future__ import annotations

import random
import string

from training.environments.shop.kinds import KINDS, MAKERS, SERIES, Kind
from training.environments.shop.product import Product

PER_KIND = 75
"""Products."""
_SIGNS = string.digits + string.ascii_uppercase
_REVIEWS = (
    "Just as it was described. I would buy it again.",
    "It came quickly and does what it should.",
    "Not bad for the money, though the parcel was dented.",
    "A present for my sister; she uses it all the time.",
    "It is smaller than I thought. Otherwise fine.",
    "My second one. The first is still in good order.",
)


def generated() -> tuple[Product, ...]:
    """All products, kind by kind."""
    return tuple(_product(kind, number) for kind in KINDS for number in range(PER_KIND))


def _product(kind: Kind, number: int) -> Product:
    draw = random.Random(f"{kind.name} {number}")
    maker, series = draw.choice(MAKERS[kind.department]), draw.choice(SERIES)
    attributes = draw.sample(kind.attributes, draw.randint(3, 5))
    low, high = kind.prices
    options = {}
    for name, values in kind.options.items():
        offered = set(draw.sample(values, draw.randint(min(3, len(values)), len(values))))
        options[name] = tuple(value for value in values if value in offered)
    return Product(
        asin="B0" + "".join(draw.choices(_SIGNS, k=8)),
        # Some of what is true of it is told on its page alone.
        title=f"{maker} {series} {kind.name}, {', '.join(attributes[: draw.randint(1, 4)])}",
        category=kind.name,
        path=(kind.department, kind.section, kind.name),
        query=kind.name,
        attributes=tuple(sorted(attributes)),
        options=options,
        price=draw.randint(low, high) + draw.choice((0.49, 0.95, 0.99)),
        description=f"{maker} makes the {series} {kind.name} for {kind.use}.",
        features=tuple(draw.sample(attributes, len(attributes))),
        reviews=tuple(draw.sample(_REVIEWS, draw.randint(0, 2))),
    )
