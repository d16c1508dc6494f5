"""The material of the domains as repositories: the recipe of an image, and external context for its tasks.

One repository per domain that has a folder of recipes. Its tree is that folder, our licence, and below `context/` what
was collected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pipeline.checkout import CheckoutConfig, Collected, collect, store
from pipeline.directory_tree import walk
from pipeline.errors import ItemRejected
from pipeline.types import CONTEXT, DOMAINS, Checkout, Repository

logger = logging.getLogger(__name__)


class ContextSource:
    """The domains as repositories."""

    def __init__(self, recipes: Path, checkout: CheckoutConfig) -> None:
        """`recipes` holds a folder with a Dockerfile for each domain."""
        self._recipes = recipes
        self._checkout = checkout

    @property
    def name(self) -> str:
        return CONTEXT

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """The domains that have a recipe; another recipe is another commit."""
        for domain in DOMAINS:
            if (self._recipes / domain / "Dockerfile").is_file():
                yield Repository(
                    source=self.name,
                    full_name=f"{CONTEXT}/{domain}",
                    commit=self._tree(domain).sha256,
                    language="python",
                    locator=domain,
                )

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `gone`, `changed` and the classes of `checkout.collect`."""
        if repository.domain is None or not (self._recipes / repository.locator).is_dir():
            raise ItemRejected("gone", f"{repository.locator} has no recipe any more")
        tree = self._tree(repository.locator)
        if tree.sha256 != repository.commit:
            raise ItemRejected("changed", f"{repository.locator} changed since it was listed")
        return store(repository, tree, destination)

    def _tree(self, domain: str) -> Collected:
        return collect(walk(self._recipes / domain), self._checkout)
