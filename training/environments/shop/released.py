"""Reads products of the original WebShop: a file items_shuffle*.json of its release.

Attributes of a product stand in itself or, as in the release, in the file items_ins_v2*.json beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from training.environments.shop.product import Product

_PRICE = re.compile(r"\$([\d,]*\.?\d+)")
_UNKNOWN_PRICE = 100.0
"""What the original takes where a product has none, dollars."""


def read_products(file: Path) -> tuple[Product, ...]:
    """In the order of the file, each name once; those without any attribute are left out.

    Raises ConfigurationError for another file.
    """
    beside = file.with_name(file.name.replace("items_shuffle", "items_ins_v2"))
    try:
        items = json.loads(file.read_text(encoding="utf-8"))
        told = json.loads(beside.read_text(encoding="utf-8")) if beside != file and beside.exists() else {}
        found: dict[str, Product] = {}
        for product in _products(items, told):
            found.setdefault(product.asin, product)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{file} is no list of products like WebShop's items_shuffle.json: {type(error).__name__}: {error}"
        ) from error
    return tuple(found.values())


def _products(items: Any, told: Mapping[str, Any]) -> Iterator[Product]:
    for item in items:
        attributes = item.get("attributes") or told.get(item["asin"], {}).get("attributes") or ()
        if not attributes:
            continue
        bullets = item.get("small_description") or ()
        yield Product(
            asin=item["asin"],
            title=item["name"],
            category=item["category"],
            path=tuple(part.strip() for part in (item.get("product_category") or "").split("›")),
            query=item["query"].lower(),
            attributes=tuple(sorted({attribute.lower() for attribute in attributes})),
            options=_options(item.get("customization_options") or {}),
            price=_price(item.get("pricing") or ""),
            description=item.get("full_description") or "",
            features=(bullets,) if isinstance(bullets, str) else tuple(bullets),
            reviews=(),
        )


def _options(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, values in given.items():
        if values:
            found[name.lower()] = tuple(dict.fromkeys(" ".join(one["value"].lower().split()) for one in values))
    return found


def _price(text: str) -> float:
    """The highest of those that are named."""
    return max((float(number.replace(",", "")) for number in _PRICE.findall(text)), default=_UNKNOWN_PRICE)
