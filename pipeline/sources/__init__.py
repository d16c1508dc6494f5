"""Where repositories come from: one file per kind of place, all with the same protocol.

A source lists repositories and fetches them one by one; it knows nothing of images or tasks. Reading, checking and
storing a tree is common to all of them and lives one room down, in pipeline/checkout.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pipeline.types import Checkout, Repository


class Source(Protocol):
    """One kind of place that repositories come from."""

    @property
    def name(self) -> str:
        """Name stored on rows, e.g. `registry`."""

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """Everything there is, in a fixed order; only what changed after `since` where the place knows times.

        Cheap: nothing is downloaded where that can be avoided. A bad item is listed too, so that `fetch` can give the
        reason. Raises ConfigurationError for a mistake in the configuration, InfrastructureFailure when the place
        cannot be reached.
        """

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """Store the tree as `destination/<tree_sha256>.tar` and say what was found. Safe to call from many threads.

        Raises ItemRejected when the item is at fault (`gone` when it is no longer offered), InfrastructureFailure for
        the network, the place or the disk.
        """
