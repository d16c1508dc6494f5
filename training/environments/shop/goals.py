"""Makes instructions: what to ask for so that a product fits, and if it can be so that no other one does."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from training.environments.shop.product import Product
from training.environments.shop.reward import Goal, reward

_STEP = 10
"""Limits of prices are multiples of it, dollars."""
_NAMED = 0.75
"""Share of the options that an instruction names."""
_OPENINGS = ("i need", "i am looking for", "find me", "i want to buy")


def goal_of(product: Product, catalogue: Sequence[Product]) -> Goal | None:
    """The same for equal products; None where another one fits too, whatever attributes of it are asked for."""
    draw = random.Random(product.asin)
    attributes = draw.sample(product.attributes, len(product.attributes))
    named = [name for name in product.options if draw.random() < _NAMED] or list(product.options)[:1]
    options = {name: draw.choice(product.options[name]) for name in named}
    most = (int(product.price) // _STEP + draw.randint(1, 3)) * _STEP
    opening = draw.choice(_OPENINGS)
    rivals = [other for other in catalogue if other is not product]
    for count in range(min(draw.randint(1, 3), len(attributes)), len(attributes) + 1):
        asked = tuple(attributes[:count])
        goal = Goal(product, asked, options, float(most), _instruction(opening, product, asked, options, most))
        rivals = [other for other in rivals if set(asked).issubset(other.attributes)]
        if not any(_fits(other, goal) for other in rivals):
            return goal
    return None


def _fits(product: Product, goal: Goal) -> bool:
    """It can be bought for the full reward."""
    offered = {name: value for name, value in goal.options.items() if value in product.options.get(name, ())}
    return reward(product, offered, goal) == 1.0


def _instruction(opening: str, product: Product, attributes: Iterable[str], options: dict[str, str], most: int) -> str:
    thing = f"{', '.join(attributes)} {product.query}"
    article = "" if product.query.endswith("s") else "an " if thing[0] in "aeiou" else "a "
    chosen = " and ".join(f"{name} {value}" for name, value in options.items())
    with_options = f" in {chosen}" if chosen else ""
    return f"{opening} {article}{thing}{with_options}, with price lower than {most}.00 dollars"
