"""Finds products by words in their titles and attributes: Okapi BM25.

Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", with the usual k1 = 1.2 and
b = 0.75, and the logarithm of 1 + the ratio, so that words in most titles do not count against a product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from training.environments.shop.product import Product

MOST_RESULTS = 50
"""Of one search."""
_K1 = 1.2
_B = 0.75
_WORD = re.compile(r"[a-z0-9]+")


class Index:
    """The words of a catalogue."""

    def __init__(self, products: Sequence[Product]) -> None:
        self._products = products
        counts = [Counter(_words(f"{one.title} {' '.join(one.attributes)}")) for one in products]
        lengths = [count.total() for count in counts]
        mean = sum(lengths) / max(1, len(lengths))
        self._weights: dict[str, list[tuple[int, float]]] = {}
        for number, count in enumerate(counts):
            slack = _K1 * (1 - _B + _B * lengths[number] / mean) if mean else _K1
            for word, times in count.items():
                weight = times * (_K1 + 1) / (times + slack)
                self._weights.setdefault(word, []).append((number, weight))

    def found(self, text: str) -> tuple[Product, ...]:
        """The best first, equally good ones in the order of the catalogue; none where no word is known."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(_words(text)):
            having = self._weights.get(word, ())
            rarity = log(1 + (len(self._products) - len(having) + 0.5) / (len(having) + 0.5))
            for number, weight in having:
                scores[number] = scores.get(number, 0.0) + rarity * weight
        best = sorted(scores, key=lambda number: (-scores[number], number))[:MOST_RESULTS]
        return tuple(self._products[number] for number in best)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
