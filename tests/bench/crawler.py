"""The crawler of the crawl benchmark, a process of its own so that its memory is measured alone.

Writes JSON lines while it crawls, {"repositories", "seconds", "rss_mb"}, and one at the end that says what was done.
Started again after a kill, it goes on where it was.

    python -m tests.bench.crawler --base-url URL --folder DIR [--tokens 2] [--sample N] [--workers 4]
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import SecretStr

from pipeline.checkout import CheckoutConfig
from pipeline.errors import PipelineError
from pipeline.sources.github import GithubConfig, GithubSource
from pipeline.sources.github_index import CrawlIndex
from pipeline.types import LANGUAGES, Repository, content_id

TOKENS = ("one", "two", "three")


def index_path(folder: Path, base_url: str) -> Path:
    """Where the source keeps its index."""
    return folder / f"{content_id('hub', base_url)}.sqlite"


def rss_mb() -> float:
    """Memory of this process that is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _watch(index: CrawlIndex, stop: threading.Event, began: float) -> None:
    pause_s = 0.25
    while True:
        ended = stop.wait(pause_s)
        asked = time.monotonic()
        repositories = index.progress()["repositories"]
        seconds = round(asked - began, 2)
        pause_s = max(0.25, 20 * (time.monotonic() - asked))  # counting a million rows takes a while
        print(json.dumps({"repositories": repositories, "seconds": seconds, "rss_mb": rss_mb()}), flush=True)
        if ended:
            return


def crawl(base_url: str, folder: Path, tokens: int, sample: int, workers: int) -> dict[str, object]:
    """All metadata, commits and content of `sample` repositories. Returns what was done."""
    per_language = -(-sample // len(LANGUAGES))
    config = GithubConfig(base_url=base_url, qualifiers="", per_language=per_language)
    secrets = [SecretStr(token) for token in TOKENS[:tokens]]
    source = GithubSource(config, CheckoutConfig(), folder, secrets, "give --tokens")
    index = CrawlIndex(index_path(folder, base_url))
    began, stop = time.monotonic(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(index, stop, began))
    watcher.start()
    try:
        chosen = list(source.repositories(None))[:sample]
    finally:
        stop.set()
        watcher.join()
    listed_s = time.monotonic() - began
    outcomes = _contents(source, chosen, folder / "trees", workers)
    return {
        "done": True,
        "requests": source.requests,
        "listed_s": listed_s,
        "contents": len(chosen),
        "contents_s": time.monotonic() - began - listed_s,
        "outcomes": dict(outcomes),
        "rss_mb": rss_mb(),
    }


def _contents(source: GithubSource, chosen: list[Repository], trees: Path, workers: int) -> Counter[str]:
    def fetched(repository: Repository) -> str:
        try:
            checkout = source.fetch(repository, trees)
        except PipelineError as error:
            return getattr(error, "failure_class", type(error).__name__)
        # Ten thousand trees are not kept for a benchmark.
        (trees / f"{checkout.tree_sha256}.tar").unlink(missing_ok=True)
        return "fetched"

    with ThreadPoolExecutor(workers) as pool:
        return Counter(pool.map(fetched, chosen))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--workers", type=int, default=4)
    arguments = parser.parse_args()
    done = crawl(arguments.base_url, arguments.folder, arguments.tokens, arguments.sample, arguments.workers)
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
