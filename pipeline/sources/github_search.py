"""Every repository that search can name, through questions small enough for its cap of 1,000 results.

A question is a language and a range of time; one with more results is divided, by time down to a second, then by size.
The raw `total_count` decides: PyGithub's own count ends at the cap. A page may lose what moved to another page in
between, so a question is read again until as many different repositories came as it has results.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pipeline.errors import ConfigurationError, InfrastructureFailure
from pipeline.sources.github_client import Answer, HubClient
from pipeline.sources.github_index import CrawlIndex, Slice
from pipeline.sources.github_metadata import SEARCHED, Found, UnreadableAnswer, found
from pipeline.types import Language, content_id

logger = logging.getLogger(__name__)

CAP = 1_000
"""Results that search gives to one question."""
PAGE = 100

FIRST_S = int(datetime(2007, 1, 1, tzinfo=UTC).timestamp())
"""No repository is older."""

OVERLAP_S = 3_600
"""A refresh begins so long before the last one: search learns of a push a while after it."""

_AIM = 600
"""Results of a part, when a question is divided."""
_MOST_PARTS = 32
_READINGS = 4
_FIRST_SIZES_KB = 1_023
_LOGGED = 100
"""After so many questions the log says how far the crawl is."""


class Crawl:
    """The crawl of one hub, and the rounds that refresh it."""

    def __init__(self, client: HubClient, index: CrawlIndex, languages: Sequence[Language], qualifiers: str) -> None:
        """`qualifiers` are added to every question."""
        self._client = client
        self._index = index
        self._languages = tuple(languages)
        self._qualifiers = qualifiers

    def bring_up_to_date(self) -> None:
        """Finish what was begun, then ask for what was pushed since; the first time all of it.

        Other qualifiers or languages begin a crawl anew over what is known. Raises as HubClient.get does.
        """
        subject = content_id("crawl", self._qualifiers, self._languages)
        if self._index.fact("subject") != subject:
            now = self._hub_time()
            slices = [Slice(0, 0, language, "created", FIRST_S, now) for language in self._languages]
            self._index.plan(slices, {"subject": subject, "round": "0", "until": str(now), "complete": "no"})
        if self._index.fact("complete") == "no":
            self._finish_round()
        self._plan_refresh()
        self._finish_round()

    def _plan_refresh(self) -> None:
        number, until = int(self._index.fact("round") or 0) + 1, int(self._index.fact("until") or FIRST_S)
        now = max(self._hub_time(), until)
        first = until - OVERLAP_S
        slices = [Slice(0, number, language, "pushed", first, now) for language in self._languages]
        facts = {"round": str(number), "until": str(now), "before": str(until), "complete": "no"}
        self._index.plan(slices, facts)

    def _finish_round(self) -> None:
        """All open questions, as many at a time as there are tokens."""
        width = self._client.width
        answered = 0
        running: dict[Future[None], int] = {}
        with self._client.pool("search") as pool:
            while True:
                taken = set(running.values())
                for one in self._index.open_slices(2 * width):
                    if one.id not in taken and len(running) < width:
                        running[pool.submit(self._ask, one)] = one.id
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    del running[future]
                    future.result()
                answered += len(done)
                if answered % _LOGGED == 0:
                    logger.info("crawl: %s", self._index.progress())
        progress = self._index.progress()
        if progress["missing"]:
            logger.warning("%d results of search are beyond its cap and were not read", progress["missing"])
        self._index.state_facts({"complete": "yes"})

    def _ask(self, one: Slice) -> None:
        """Answer one question, or divide it."""
        results: dict[int, Found] = {}
        whole, known = False, -1
        for _ in range(_READINGS):
            answer, total = self._page(one, 1)
            if total > CAP and (smaller := list(parts(one, total))):
                self._index.split(one, smaller)
                return
            whole, total = self._read(one, answer, total, results)
            missing = max(0, total - len(results))
            # A reading that adds nothing shows that the hub counts what it does not hand out.
            if whole and (not missing or len(results) == known):
                break
            known = len(results)
        else:
            if total > PAGE and (smaller := list(parts(one, total))):
                # It does not hold still long enough to be read in pages; smaller ones do.
                self._index.split(one, smaller)
                return
            if not whole:
                raise InfrastructureFailure(
                    f"search calls its results incomplete {_READINGS} times in a row: {question(one, self._qualifiers)}"
                )
        self._index.finish(one, list(results.values()), missing=missing)

    def _read(self, one: Slice, answer: Answer, total: int, results: dict[int, Found]) -> tuple[bool, int]:
        """All pages, the first one being there. Whether the hub calls them complete, and its last count."""
        whole = True
        for number in range(1, math.ceil(min(total, CAP) / PAGE) + 1):
            if number > 1:
                answer, total = self._page(one, number)
            whole &= not answer.data.get("incomplete_results", False)
            for item in answer.data["items"]:
                try:
                    repository = found(item, one.language)
                except UnreadableAnswer as error:
                    raise InfrastructureFailure(str(error)) from error
                results[repository.id] = repository
        return whole, total

    def _page(self, one: Slice, number: int) -> tuple[Answer, int]:
        """One page and the raw number of results."""
        text = question(one, self._qualifiers)
        answer = self._client.get("/search/repositories", {"q": text, "per_page": PAGE, "page": number})
        if answer.status == 422:
            raise ConfigurationError(
                f"the hub does not understand the search {text!r} ({answer.message}); correct sources.github.qualifiers"
            )
        if answer.status != 200 or not isinstance(answer.data, dict) or "total_count" not in answer.data:
            raise InfrastructureFailure(f"search answers with status {answer.status}: {answer.message}")
        return answer, int(answer.data["total_count"])

    def _hub_time(self) -> int:
        """The hub's clock: its times are compared with those of its repositories, ours may be wrong."""
        answer = self._client.get("/rate_limit")
        try:
            return int(parsedate_to_datetime(answer.headers.get("date", "")).timestamp())
        except ValueError:
            raise InfrastructureFailure("the hub's answers carry no time") from None


def question(one: Slice, qualifiers: str) -> str:
    """The text of a search."""
    words = [f"language:{SEARCHED[one.language]}", f"{one.field}:{_stamp(one.first)}..{_stamp(one.last)}"]
    if one.size_high is not None:
        words.append(f"size:{one.size_low}..{one.size_high}")
    elif one.size_low:
        words.append(f"size:>={one.size_low}")
    return " ".join([*words, *qualifiers.split()])


def parts(one: Slice, total: int) -> Iterator[Slice]:
    """A question with `total` results in smaller ones, which overlap nowhere; none when it cannot be divided."""
    seconds = one.last - one.first + 1
    if seconds > 1:
        count = min(max(2, math.ceil(total / _AIM)), _MOST_PARTS, seconds)
        edges = [one.first + seconds * number // count for number in range(count + 1)]
        for first, after in itertools.pairwise(edges):
            yield replace(one, id=0, first=first, last=after - 1)
    elif one.size_high is None:
        high = max(2 * one.size_low, _FIRST_SIZES_KB)
        yield replace(one, id=0, size_high=high)
        if high < 2**40:
            yield replace(one, id=0, size_low=high + 1)
    elif one.size_high > one.size_low:
        # Sizes spread over orders of magnitude: the middle is that of their logarithms.
        middle = math.isqrt((one.size_low + 1) * (one.size_high + 1)) - 1
        middle = min(max(middle, one.size_low), one.size_high - 1)
        yield replace(one, id=0, size_high=middle)
        yield replace(one, id=0, size_low=middle + 1)


def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
