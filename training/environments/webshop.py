"""WebShop: finding and buying what an instruction asks for, in a shop told as text.

Yao et al. 2022, "WebShop: Towards Scalable Real-World Web Interaction with Grounded Language Agents": its actions, its
pages and its reward (shop/reward.py). Its products are in no package, so the catalogue is generated; a file of its
release can be given instead. A template is a category; an instance is the product that an instruction was made for.
Differences: one price for all options of a product, instructions made from attributes alone, and none that two products
of the generated catalogue fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from training.environments.game import GameFacts, GameTask, Opening, Played, Split
from training.environments.levels import levelled
from training.environments.shop.catalogue import generated
from training.environments.shop.goals import goal_of
from training.environments.shop.pages import BUY, NEXT, PER_PAGE, PREVIOUS, Page, buttons, clicked, text
from training.environments.shop.product import Product
from training.environments.shop.released import read_products
from training.environments.shop.reward import Goal, reward
from training.environments.shop.search import Index

FACTS = GameFacts(
    name="webshop",
    package="touchstone",
    license="Apache-2.0",
    needs_java=False,
    has_admissible=True,
    by_chance=False,
    max_steps=50,
    step_timeout_s=10.0,
)
TASKS: dict[Split, int] = {"train": 416, "seen": 96, "unseen": 96}
"""As many as there are, evenly of all templates of a split."""
HELD_OUT = 5
"""One template of so many is unseen."""
_ACTION = re.compile(r"(search|click)\[(.*)\]", re.DOTALL)
_TASK = """\
Buy the product that the instruction asks for, with the options that it names. Actions are:
search[words]
click[button]
Buttons stand in brackets on the page. The first purchase is the last action.

Instruction: {instruction}"""


def make(products: Path | None = None) -> WebShop:
    """`products`: a file of the release to be used for the catalogue. Raises ConfigurationError for another file."""
    return WebShop(generated() if products is None else read_products(products), alone=products is None)


class WebShop:
    """One customer in one shop; see Game."""

    def __init__(self, products: tuple[Product, ...], *, alone: bool) -> None:
        """`alone`: nothing is asked for that several products fit."""
        self._products = products
        self._rivals = products if alone else ()
        self._by_asin = {product.asin: product for product in products}
        self._index = Index(products)
        self._goal: Goal | None = None
        self._page = Page()
        self._score: float | None = None

    @property
    def facts(self) -> GameFacts:
        return FACTS

    def candidates(self) -> Iterator[GameTask]:
        """See Game: the first products of each category whose gold path was played to the full score."""
        categories = sorted({product.category for product in self._products})
        unseen = categories[HELD_OUT - 1 :: HELD_OUT]
        rest = [category for category in categories if category not in unseen]
        found = []
        for category in categories:
            wanted: list[Split] = ["unseen"] * (TASKS["unseen"] // max(1, len(unseen)))
            if category in rest:
                per_split: tuple[Split, ...] = ("train", "seen")
                wanted = [split for split in per_split for _ in range(TASKS[split] // len(rest))]
            for product in self._products:
                if wanted and product.category == category and (steps := self._played(product)):
                    task = {"task_type": category, "variation": product.asin, "split": wanted.pop(0)}
                    found.append(task | {"gold_steps": steps})
        return levelled(found)

    def start(self, task_type: str, variation: str) -> Opening:
        """See Game: `variation` is the product's name in the shop."""
        product = self._by_asin.get(variation)
        goal = goal_of(product, self._rivals) if product is not None and product.category == task_type else None
        if goal is None:
            raise ValueError(f"WebShop has no {variation!r} to be asked for in {task_type!r}")
        self._goal, self._page, self._score = goal, Page(), None
        return Opening(task=_TASK.format(instruction=goal.instruction), observation=text(self._page))

    def act(self, action: str) -> Played:
        """See Game."""
        if self._score is not None:
            return self._told("The purchase was made.", rejected=True)
        found = _ACTION.fullmatch(action.strip())
        words = " ".join(found[2].split()) if found else ""
        if found is None or not words:
            return self._told("That is no action.", rejected=True)
        return self._search(words) if found[1] == "search" else self._click(words)

    def gold(self) -> tuple[str, ...]:
        """See Game: search for what is asked for, turn pages, read on what no title tells, choose, buy."""
        goal = self._wanted
        words = f"{' '.join(goal.attributes)} {goal.product.query}"
        found = self._index.found(words)
        if goal.product not in found:
            return ()
        path = [f"search[{words}]"]
        path += [f"click[{NEXT.lower()}]"] * (found.index(goal.product) // PER_PAGE)
        path.append(f"click[{goal.product.asin.lower()}]")
        if not all(attribute in goal.product.title.lower() for attribute in goal.attributes):
            path += ["click[features]", f"click[{PREVIOUS.lower()}]"]
        path += [f"click[{value}]" for value in goal.options.values()]
        return (*path, f"click[{BUY.lower()}]")

    def admissible(self) -> tuple[str, ...]:
        """See Game: all clicks; of all searches those for the kind of thing and for what the path looks for."""
        if self._score is not None:
            return ()
        if self._page.kind == "search":
            return tuple(sorted({f"search[{self._wanted.product.query}]", *self.gold()[:1]}))
        return tuple(sorted({f"click[{button.lower()}]" for button in buttons(self._page)}))

    def close(self) -> None:
        """See Game: there is nothing to release."""

    @property
    def _wanted(self) -> Goal:
        assert self._goal is not None, "start() comes first"
        return self._goal

    def _search(self, words: str) -> Played:
        if self._page.kind != "search":
            return self._told("There is no search on this page.", rejected=True)
        self._page = Page(kind="results", found=self._index.found(words))
        return self._told()

    def _click(self, words: str) -> Played:
        button = next((one for one in buttons(self._page) if one.lower() == words.lower()), None)
        if button is None:
            return self._told("There is no such button on this page.", rejected=True)
        if button == BUY and self._page.product is not None:
            self._score = round(reward(self._page.product, self._page.chosen, self._wanted), 6)
            return self._told()
        self._page = clicked(self._page, button)
        return self._told()

    def _told(self, fault: str = "", *, rejected: bool = False) -> Played:
        """What is seen now, after what was wrong."""
        seen = text(self._page) if self._score is None else f"Bought. Score, from 0 to 1: {self._score:.2f}"
        return Played(
            observation=f"{fault}\n{seen}".strip(),
            score=self._score or 0.0,
            done=self._score is not None,
            rejected=rejected,
        )

    def _played(self, product: Product) -> int:
        """The length of the gold path; 0 where there is none that reaches the full score."""
        try:
            self.start(product.category, product.asin)
        except ValueError:
            return 0
        gold = self.gold()
        played = [self.act(action) for action in gold]
        return len(gold) if played and played[-1].score == 1.0 else 0
