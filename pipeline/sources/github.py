"""Repositories of a hub with GitHub's API: found by search, chosen by their metadata, pinned to a commit, cloned.

An index of everything that search names stays in the data folder and is brought up to date by what was pushed since.
Of it the best of each language are listed. The parts: github_search.py asks, github_pins.py pins, github_index.py
keeps, github_client.py speaks to the API, github_limits.py waits; content comes through pipeline/clones.py.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from pipeline.checkout import CheckoutConfig, store
from pipeline.clones import CloneConfig, Cloned, Cloner
from pipeline.errors import InfrastructureFailure, ItemRejected
from pipeline.sources.github_client import HubClient
from pipeline.sources.github_index import CrawlIndex, Known
from pipeline.sources.github_limits import Clock
from pipeline.sources.github_pins import REFUSED, pin
from pipeline.sources.github_search import Crawl
from pipeline.types import LANGUAGES, Checkout, Language, Repository, content_id
from sandbox.locks import exclusive

logger = logging.getLogger(__name__)

_LOCATOR = re.compile(r"repositories/(\d+)")
_TREE_CUT = 100_000
"""Entries behind which the hub cuts a tree."""


class GithubConfig(BaseModel):
    """Which repositories of which hub, and how long is waited for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    """Address of an Enterprise server's API, e.g. `https://hub.example.com/api/v3`; the public hub when left out."""
    qualifiers: str = "stars:>=5"
    """Added to every search, in the hub's own words."""
    languages: tuple[Language, ...] = LANGUAGES
    per_language: int = Field(default=100, ge=0)
    """Repositories of each language that are listed, those with the best metadata; the index holds all."""
    skip: tuple[Literal["archived", "fork", "mirror"], ...] = ("archived", "fork", "mirror")
    """What is refused with its reason instead of being cloned."""
    max_wait_s: float = Field(default=4_000.0, gt=0)
    """Seconds that a request waits for a limit of the hub, which resets every hour; beyond them the run ends."""
    clone: CloneConfig = CloneConfig()


class GithubSource:
    """The best repositories of a hub."""

    def __init__(
        self,
        config: GithubConfig,
        checkout: CheckoutConfig,
        folder: Path,
        tokens: Sequence[SecretStr],
        remedy: str,
        clock: Clock | None = None,
    ) -> None:
        """`folder` keeps the index; `remedy` says where tokens come from. Raises ConfigurationError without any."""
        self._config = config
        self._checkout = checkout
        self._folder = folder
        self._client = HubClient(tokens, config.base_url, remedy=remedy, max_wait_s=config.max_wait_s, clock=clock)
        # Enterprise servers want a login for reading as well; the public hub's content is for everybody.
        token = tokens[0] if config.base_url is not None else None
        self._cloner = Cloner(folder / "clones", config.clone, checkout, token)
        self._opening = threading.Lock()
        self._opened: CrawlIndex | None = None

    @property
    def name(self) -> str:
        return "github"

    @property
    def requests(self) -> dict[str, int]:
        """Requests that the API answered since this object was made, by kind."""
        return {kind: count for kind, count in self._client.requests.items()}

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """The best of each language, after the index was brought up to date; of `since`, what was pushed after it.

        What is archived, empty, gone or blocked is listed too. Raises ConfigurationError when no token is accepted,
        InfrastructureFailure when the hub fails again and again, or a limit does not reset within the bound.
        """
        index = self._index()
        with exclusive(self._folder / "crawl.lock", "the crawl"):
            Crawl(self._client, index, self._config.languages, self._config.qualifiers).bring_up_to_date()
            pinned = pin(self._client, index, self._config.languages, self._config.per_language)
        logger.info("github: %s; %d asked for a commit; requests %s", index.progress(), pinned, self.requests)
        after = None if since is None else since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for known in index.pinned(after):
            yield Repository(
                source=self.name,
                full_name=known.full_name,
                commit=known.commit,
                language=known.language,
                locator=f"repositories/{known.id}",
            )

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `archived`, `fork`, `mirror`, `disabled`, `empty_repository`, `gone`, `blocked`,
        `changed`, `too_large`, and the classes of `checkout.collect`.
        """
        match = _LOCATOR.fullmatch(repository.locator)
        known = self._index().known(int(match[1])) if match else None
        if known is None:
            raise ItemRejected("gone", f"{repository.locator} is not in the index of the crawl")
        if known.state == "empty":
            raise ItemRejected("empty_repository", "the git repository has no commit")
        if known.state == "disabled" or known.state in self._config.skip:
            raise ItemRejected(known.state, f"the hub calls it {known.state}")
        if repository.commit.startswith(REFUSED):
            self._explain(known, "it could not be read when it was listed")
            self._index().unpin(known.id)
            raise ItemRejected("changed", "it could not be read when it was listed, and can be now; it is listed anew")
        self._require_size(known, repository.commit)
        cloned = self._cloned(known, repository)
        warnings = [*cloned.warnings]
        if known.full_name != known.searched_name:
            warnings.append(f"renamed: search knew it as {known.searched_name}")
        checkout = store(repository, cloned.tree, destination)
        update = {"warnings": (*checkout.warnings, *warnings), "submodules": cloned.submodules}
        return checkout.model_copy(update=update)

    def _cloned(self, known: Known, repository: Repository) -> Cloned:
        try:
            return self._cloner.clone(known.clone_url, repository.commit, repository.repository_id)
        except ItemRejected as rejection:
            if rejection.failure_class not in ("gone", "blocked"):
                raise
            address = str(self._explain(known, rejection.reason)["clone_url"])
            if address == known.clone_url:
                raise InfrastructureFailure(f"the hub has it, and does not hand it out: {rejection.reason}") from None
        cloned = self._cloner.clone(address, repository.commit, repository.repository_id)
        return replace(cloned, warnings=(f"renamed: it is at {address} now",))

    def _explain(self, known: Known, what: str) -> Mapping[str, Any]:
        """What the API says of a repository that cannot be had. Raises ItemRejected (gone, blocked) where it does."""
        status, data = self._remembered(f"/repositories/{known.id}")
        if status == 200:
            return data
        message = str(data.get("message", "")) or "no reason given"
        if status in (403, 451):
            reason = data.get("block", {}).get("reason", "") if isinstance(data.get("block"), Mapping) else ""
            raise ItemRejected("blocked", f"the hub blocks it ({status} {reason}): {message}")
        if status in (301, 404, 410):
            raise ItemRejected("gone", f"the hub does not have it any more ({status}): {message}")
        raise InfrastructureFailure(f"{what}; the hub answers with status {status}: {message}")

    def _remembered(self, path: str) -> tuple[int, Mapping[str, Any]]:
        """An answer that is asked for again costs nothing while it is the same."""
        kept = self._index().answer(path)
        answer = self._client.get(path, etag=kept[0] if kept else None)
        if answer.status == 304 and kept:
            return 200, json.loads(kept[1])
        data = answer.data if isinstance(answer.data, dict) else {}
        if answer.status == 200 and (etag := answer.headers.get("etag")):
            self._index().keep_answer(path, etag, json.dumps({"clone_url": data["clone_url"]}))
        return answer.status, data

    def _require_size(self, known: Known, commit: str) -> None:
        """Ask for the tree of what may be too large, which costs less than cloning it.

        Raises ItemRejected (too_large, file_too_large, too_many_files).
        """
        limits = self._checkout
        if known.size_kb * 1024 <= limits.max_bytes:
            return
        answer = self._client.get(f"/repos/{known.full_name}/git/trees/{commit}", {"recursive": 1})
        if answer.status != 200 or not isinstance(answer.data, Mapping):
            return  # cloning it says why, and stops at the same limits
        entries = answer.data.get("tree", ())
        sizes = {entry["path"]: int(entry.get("size") or 0) for entry in entries if entry.get("type") == "blob"}
        cut = answer.data.get("truncated") and limits.max_files < _TREE_CUT
        if len(sizes) > limits.max_files or cut:
            raise ItemRejected("too_many_files", f"more than {limits.max_files:,} files")
        for path, size in sizes.items():
            if size > limits.max_file_bytes:
                raise ItemRejected(
                    "file_too_large", f"{path} has {size:,} bytes, one may have {limits.max_file_bytes:,}"
                )
        if sum(sizes.values()) > limits.max_bytes:
            raise ItemRejected("too_large", f"more than {limits.max_bytes:,} bytes in all")

    def _index(self) -> CrawlIndex:
        """Opened when first asked for: reading settings makes no files."""
        with self._opening:
            if self._opened is None:
                hub = content_id("hub", self._config.base_url)
                self._opened = CrawlIndex(self._folder / f"{hub}.sqlite")
            return self._opened
