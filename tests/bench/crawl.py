"""A crawl of a simulated hub: metadata of all repositories through search, content of a sample.

The hub and the crawler are processes of their own. The index is compared with the hub's truth at the end; the last line
is one JSON object.

    python -m tests.bench.crawl [--repositories 1000000] [--sample 0.01] [--tokens 2] [--kills 0] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from tests.bench.crawler import index_path
from tests.github_server.world import World, stamp

AIM = 900_000
"""Repositories that the projection is about."""
SEARCH_PER_MINUTE = 30
GRAPHQL_PER_HOUR = 5_000
PIN_BATCH = 100
"""The hub's limits for one token, and the repositories of one GraphQL request."""

CROWD = 2_500
PROJECT = Path(__file__).resolve().parents[2]


@dataclass
class Result:
    """What a crawl did."""

    samples: list[dict[str, float]] = field(default_factory=list)
    done: dict[str, object] = field(default_factory=dict)
    kills: int = 0
    missing: int = 0
    """Repositories of the truth that the index lacks, or has otherwise."""
    surplus: int = 0


@contextmanager
def hub(repositories: int, seed: int, crowd: int) -> Iterator[str]:
    """The simulated hub as a process; its base address."""
    command = [sys.executable, "-m", "tests.github_server", "--repositories", str(repositories)]
    command += ["--seed", str(seed), "--crowd", str(crowd)]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(30)


def crawl(base_url: str, folder: Path, options: Sequence[str], kill_at: Sequence[int]) -> Result:
    """Crawl to the end; killed and started again each time the index has so many repositories."""
    command = [sys.executable, "-m", "tests.bench.crawler", "--base-url", base_url, "--folder", str(folder), *options]
    result = Result()
    for threshold in (*sorted(kill_at), None):
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(command, cwd=PROJECT, stdout=output)
            if threshold is not None and _reached(index_path(folder, base_url), threshold, process):
                process.send_signal(signal.SIGKILL)
                result.kills += 1
            code = process.wait()
            if code not in (0, -signal.SIGKILL):
                raise RuntimeError(f"the crawler ended with {code}")
            output.seek(0)
            lines = [json.loads(line) for line in output if line.endswith("\n")]
        result.samples += [line for line in lines if "done" not in line]
        result.done = next((line for line in lines if "done" in line), result.done)
        if code == 0:
            return result
    return result


def _reached(path: Path, threshold: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the index has so many; False when the crawler ended before."""
    while process.poll() is None:
        asked = time.monotonic()
        if path.exists():
            try:
                with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as connection:
                    if connection.execute("SELECT count(*) FROM repositories").fetchone()[0] >= threshold:
                        return True
            except sqlite3.OperationalError:
                pass  # the layout is being made
        time.sleep(max(0.02, 10 * (time.monotonic() - asked)))  # counting takes its share of the machine
    return False


def compare(path: Path, world: World) -> tuple[int, int]:
    """Repositories that the index lacks or has otherwise than the hub, and those that it has too many."""
    truth = world.truth()
    wrong = surplus = 0
    with sqlite3.connect(path) as connection:
        for repository_id, name, pushed_at in connection.execute(
            "SELECT id, searched_name, pushed_at FROM repositories"
        ):
            expected = truth.pop(repository_id, None)
            if expected is None:
                surplus += 1
            elif (name, pushed_at) != (expected[0], stamp(expected[1])):
                wrong += 1
    return wrong + len(truth), surplus


def slope_mb_per_100k(samples: Sequence[dict[str, float]], first: int) -> float | None:
    """Growth of memory by a line through the samples from `first` repositories on; None for too few of them."""
    chosen = [(one["repositories"], one["rss_mb"]) for one in samples if one["repositories"] >= first]
    if len(chosen) < 3 or chosen[0][0] == chosen[-1][0]:
        return None
    x, y = zip(*chosen, strict=True)
    return round(float(np.polyfit(np.asarray(x) / 100_000, np.asarray(y), 1)[0]), 3)


def projected_days(search_requests: int, repositories: int, content_s: float, tokens: int) -> dict[str, float]:
    """Days for 900,000 repositories: the hub's limits decide for metadata, this machine for content.

    What the network takes for content is not in it.
    """
    search = AIM * search_requests / repositories / (SEARCH_PER_MINUTE * tokens) / (24 * 60)
    pins = AIM / PIN_BATCH / (GRAPHQL_PER_HOUR * tokens) / 24
    content = AIM * content_s / 86_400
    return {"search": round(search, 3), "commits": round(pins, 3), "content": round(content, 3)}


def run(
    repositories: int, folder: Path, *, seed: int = 1, sample: float = 0.01, tokens: int = 2, kills: int = 0
) -> dict[str, object]:
    """The whole benchmark; the figures that are printed."""
    crowd = CROWD if repositories >= 10 * CROWD else 0
    chosen = int(repositories * sample)
    kill_at = random.Random(seed).sample(range(1, int(repositories * 0.7)), kills)
    with hub(repositories, seed, crowd) as base_url:
        result = crawl(base_url, folder, ["--tokens", str(tokens), "--sample", str(chosen)], kill_at)
        path = index_path(folder, base_url)
    missing, surplus = compare(path, World(repositories, seed, crowd=crowd))
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT count(*) FROM repositories").fetchone()[0]
    done = result.done
    requests = cast("dict[str, int]", done["requests"])["search"]
    first = min(100_000, repositories // 4)
    crawled_s = next((one["seconds"] for one in result.samples if one["repositories"] >= found), 0.0)
    contents, contents_s = int(str(done["contents"])), float(str(done["contents_s"]))
    days = projected_days(requests, found, contents_s / contents if contents else 0.0, tokens)
    return {
        "repositories": found,
        "repositories_per_second": round(found / crawled_s, 1) if crawled_s and not kills else None,
        "memory_slope_mb_per_100k": None if kills else slope_mb_per_100k(result.samples, first),
        "projected_days_900k": None if kills else round(sum(days.values()), 3),
        "projected_days": {**days, "tokens": tokens},
        "missing": missing,
        "surplus": surplus,
        "kills": result.kills,
        "search_requests": requests,
        "rss_mb": round(max((one["rss_mb"] for one in result.samples), default=0.0), 1),
        "contents": contents,
        "contents_per_second": round(contents / contents_s, 2) if contents else None,
        "outcomes": done["outcomes"],
        "index_mb": round(path.stat().st_size / 2**20, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repositories", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=float, default=0.01)
    parser.add_argument("--tokens", type=int, default=2)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        figures = run(
            arguments.repositories,
            arguments.folder or Path(temporary),
            seed=arguments.seed,
            sample=arguments.sample,
            tokens=arguments.tokens,
            kills=arguments.kills,
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
