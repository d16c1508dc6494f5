"""What a purchase is worth: Yao et al. 2022, "WebShop: Towards Scalable Real-World Web Interaction with Grounded
Language Agents", section 3 and appendix.

    r = r_type * (|attributes asked for and had| + |options asked for and chosen| + [price within the limit])
               / (|attributes asked for| + |options asked for| + 1)

r_type is 0 where the titles name no noun in common, 0.1 where they share less than a tenth of those of the wanted one,
0.5 where it is at most a fifth and neither the search term nor two departments agree, else 1.

Differences: no tagger says what a noun is, here it is every word of a title that is no number, no function word and in
no attribute of the product. Attributes and options are compared as sets, as the paper writes it; the release also
counts what is alike to 85 % and attributes that stand somewhere in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from training.environments.shop.product import Product

_FUNCTION_WORDS = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to", "with", "without")
)
_WORD = re.compile(r"[a-z][a-z'-]+")
_NO_NOUNS = 0.2
"""Share of titles where the wanted one has no noun."""


@dataclass(frozen=True)
class Goal:
    """What an instruction asks for."""

    product: Product
    """One that fits."""
    attributes: tuple[str, ...]
    options: Mapping[str, str]
    most_price: float
    """Dollars."""
    instruction: str


def reward(product: Product, chosen: Mapping[str, str], goal: Goal) -> float:
    """From 0 to 1, 1 is full. `chosen`: values of options by name."""
    attributes = set(product.attributes) & set(goal.attributes)
    options = set(chosen.items()) & set(goal.options.items())
    fitting = len(attributes) + len(options) + (product.price <= goal.most_price)
    return type_reward(product, goal.product) * fitting / (len(goal.attributes) + len(goal.options) + 1)


def type_reward(product: Product, wanted: Product) -> float:
    """Whether it is such a thing at all: 0, 0.1, 0.5 or 1."""
    share = _shared(product, wanted)
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    departments = set(product.path) & set(wanted.path)
    if share <= 0.2 and product.query != wanted.query and len(departments) < 2:
        return 0.5
    return 1.0


def _shared(product: Product, wanted: Product) -> float:
    """Of the nouns in the title of the wanted one, the share that the other has."""
    nouns = _nouns(wanted)
    return len(nouns & _nouns(product)) / len(nouns) if nouns else _NO_NOUNS


def _nouns(product: Product) -> set[str]:
    told = {word for attribute in product.attributes for word in _WORD.findall(attribute)}
    return set(_WORD.findall(product.title.lower())) - told - _FUNCTION_WORDS
