"""A simulated hub with what asks it, for the tests of the github source. Waiting moves the hub's clock instead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from pipeline.checkout import CheckoutConfig
from pipeline.sources.github import GithubConfig, GithubSource
from pipeline.sources.github_client import HubClient
from pipeline.sources.github_index import CrawlIndex
from pipeline.sources.github_search import Crawl
from pipeline.types import LANGUAGES, content_id
from tests.github_server.limits import Limits
from tests.github_server.server import GithubServer, running
from tests.github_server.world import World, stamp

REMEDY = "set TOKENS"


class HubClock:
    """Sleeping takes no time here, and lets it pass at the hub."""

    def __init__(self, server: GithubServer) -> None:
        self._server = server
        self._slept = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return time.monotonic() + self._slept

    def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds))
        self._slept += seconds
        self._server.skew_s += seconds


class Hub:
    """One server and the folder in which it is crawled."""

    def __init__(self, server: GithubServer, folder: Path) -> None:
        self.server = server
        self.world = server.world
        self.limits = server.limits
        self.folder = folder
        self.clock = HubClock(server)

    def client(self, *tokens: str, max_wait_s: float = 4_000) -> HubClient:
        secrets = [SecretStr(token) for token in tokens or ("one",)]
        return HubClient(secrets, self.server.base_url, remedy=REMEDY, max_wait_s=max_wait_s, clock=self.clock)

    def source(self, checkout: CheckoutConfig | None = None, **settings: object) -> GithubSource:
        config = GithubConfig.model_validate({"base_url": self.server.base_url, "qualifiers": "", **settings})
        return GithubSource(
            config, checkout or CheckoutConfig(), self.folder, [SecretStr("one")], REMEDY, clock=self.clock
        )

    def index(self) -> CrawlIndex:
        return CrawlIndex(self.folder / f"{content_id('hub', self.server.base_url)}.sqlite")

    def crawl(self, index: CrawlIndex, *, qualifiers: str = "", tokens: tuple[str, ...] = ("one",)) -> None:
        Crawl(self.client(*tokens), index, LANGUAGES, qualifiers).bring_up_to_date()

    def truth(self) -> dict[int, tuple[str, str]]:
        """Id -> name and time of the last push, of all that search can name."""
        return {i: (name, stamp(pushed)) for i, (name, pushed) in self.world.truth().items()}

    def asked(self, part: str) -> list[str]:
        """Paths of the requests that hold this text."""
        return [path for _, path, _ in self.server.requests if part in path]


def crawled(index: CrawlIndex) -> dict[int, tuple[str, str]]:
    """What the index says, as `truth` does."""
    return {one.id: (one.full_name, one.pushed_at) for one in index.repositories()}


@contextmanager
def hub(folder: Path, world: World, limits: Limits | None = None) -> Iterator[Hub]:
    with running(world, limits) as server:
        yield Hub(server, folder)
