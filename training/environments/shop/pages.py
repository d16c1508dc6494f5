"""The pages of the shop as text with buttons in brackets, and where each button leads.

What is bought, and what is looked for, is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from training.environments.shop.product import Product

PER_PAGE = 10
"""Products on a page of results."""
BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"

PageKind = Literal["search", "results", "item", "description", "features", "reviews"]
_TOLD: Mapping[str, PageKind] = {"Description": "description", "Features": "features", "Reviews": "reviews"}
"""Pages about a product, by their buttons."""


@dataclass(frozen=True)
class Page:
    """Where somebody is, with what they did before."""

    kind: PageKind = "search"
    found: tuple[Product, ...] = ()
    """Results of the last search."""
    number: int = 0
    """Of the page of results, from 0."""
    product: Product | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Values of options of the product by name."""


def text(page: Page) -> str:
    """What is seen."""
    return "\n".join(_lines(page))


def buttons(page: Page) -> tuple[str, ...]:
    """In the order in which they stand on the page."""
    if page.kind == "search":
        return ()
    if page.kind == "results":
        turning = [PREVIOUS] * (page.number > 0) + [NEXT] * (_shown_until(page) < len(page.found))
        return (BACK, *turning, *(product.asin for product in _shown(page)))
    if page.kind != "item":
        return (BACK, PREVIOUS)
    values = [value for values in _product(page).options.values() for value in values]
    return (BACK, PREVIOUS, *dict.fromkeys(values), *_TOLD, BUY)


def clicked(page: Page, button: str) -> Page:
    """The page after a button of it that is not BUY."""
    if button == BACK:
        return Page()
    if button in (PREVIOUS, NEXT):
        return _turned(page, 1 if button == NEXT else -1)
    if page.kind == "results":
        return replace(page, kind="item", product=next(one for one in page.found if one.asin == button), chosen={})
    if button in _TOLD:
        return replace(page, kind=_TOLD[button])
    # A value that two options have is taken for the first of them.
    name = next(name for name, values in _product(page).options.items() if button in values)
    return replace(page, chosen={**page.chosen, name: button})


def _turned(page: Page, by: int) -> Page:
    if page.kind == "results":
        return replace(page, number=page.number + by)
    return replace(page, kind="results" if page.kind == "item" else "item")


def _lines(page: Page) -> Iterator[str]:
    bracketed = [f"[{button}]" for button in buttons(page)]
    if page.kind == "search":
        yield "Search page. search[words] finds products."
        return
    if page.kind == "results":
        shown = _shown(page)
        pages = max(1, -(-len(page.found) // PER_PAGE))
        yield f"Results: {len(page.found)}. Page {page.number + 1} of {pages}."
        yield " ".join(bracketed[: len(bracketed) - len(shown)])
        for product in shown:
            yield f"[{product.asin}] {product.title}. ${product.price:.2f}"
        return
    yield " ".join(bracketed[:2])
    product = _product(page)
    if page.kind == "item":
        yield from _item_lines(page, product)
    elif page.kind == "description":
        yield product.description or "No description."
    else:
        told = product.features if page.kind == "features" else product.reviews
        yield from (f"- {line}" for line in told or (f"No {page.kind}.",))


def _item_lines(page: Page, product: Product) -> Iterator[str]:
    yield product.title
    yield f"Price: ${product.price:.2f}"
    for name, values in product.options.items():
        chosen = f" (chosen: {page.chosen[name]})" if name in page.chosen else ""
        yield f"{name}: {' '.join(f'[{value}]' for value in values)}{chosen}"
    yield " ".join(f"[{button}]" for button in (*_TOLD, BUY))


def _shown(page: Page) -> tuple[Product, ...]:
    return page.found[page.number * PER_PAGE : _shown_until(page)]


def _shown_until(page: Page) -> int:
    return (page.number + 1) * PER_PAGE


def _product(page: Page) -> Product:
    assert page.product is not None
    return page.product
