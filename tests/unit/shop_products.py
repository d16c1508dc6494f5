"""A few products that can be reckoned with by hand."""

from __future__ import annotations

from collections.abc import Mapping

from training.environments.shop.product import Product


def product(
    asin: str,
    title: str,
    *attributes: str,
    query: str = "mug",
    path: tuple[str, ...] = ("home", "kitchen", "mug"),
    options: Mapping[str, tuple[str, ...]] | None = None,
    price: float = 12.5,
) -> Product:
    return Product(
        asin=asin,
        title=title,
        category=query,
        path=path,
        query=query,
        attributes=attributes,
        options=options or {},
        price=price,
        description="",
        features=attributes,
        reviews=(),
    )
