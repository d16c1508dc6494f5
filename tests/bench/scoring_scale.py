"""`python -m tests.bench.scoring_scale`: metadata of many repositories is scored in one stream. The last line is JSON.

The rows are made up as they are asked for, and none is kept. Ends with 1 when this process holds more memory at the end
than after the first tenth, by more than the allocator may keep.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.scoring.features import VERSION, metadata_features
from pipeline.scoring.learned import ScoreModel, foretold
from pipeline.types import LANGUAGES, Checkout, Repository

GROWTH_MB = 16.0
"""How much the memory may grow after the first tenth, MiB."""
PARTS = 10


def listed(count: int) -> Iterator[tuple[Repository, Checkout]]:
    """Made-up repositories with what was found in them."""
    for number in range(count):
        repository = Repository(
            source="github",
            full_name=f"owner{number % 9973}/name{number}",
            commit=f"{number:040x}",
            language=LANGUAGES[number % len(LANGUAGES)],
            locator=f"owner{number % 9973}/name{number}",
        )
        yield (
            repository,
            Checkout(
                repository_id=repository.repository_id,
                tree_sha256=f"{number:064x}",
                n_files=number % 4001 + 1,
                n_bytes=number * 7919 % 10**8,
                license="MIT" if number % 3 else None,
                license_path="LICENSE" if number % 3 else None,
                license_sha256=None,
            ),
        )


def model() -> ScoreModel:
    """A model that looks at all the metadata, with made-up weights."""
    repository, checkout = next(listed(1))
    names = tuple(metadata_features(repository, checkout))
    ones = (1.0,) * len(names)
    return ScoreModel(
        features_version=VERSION,
        features=names,
        means=ones,
        scales=ones,
        weights=tuple((-1.0) ** number / len(names) for number in range(len(names))),
        bias=0.0,
        slope=1.0,
        offset=0.0,
    )


def memory_mb() -> float:
    """What this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def measure(count: int) -> dict[str, object]:
    """Score `count` repositories, look at the memory after each tenth."""
    began, total, held = time.monotonic(), 0.0, []
    scorer = model()
    for number, (_, probability) in enumerate(foretold(scorer, listed(count)), start=1):
        total += probability
        if number % max(1, count // PARTS) == 0:
            held.append(memory_mb())
    seconds = time.monotonic() - began
    return {
        "repositories": count,
        "mean": round(total / count, 6),
        "seconds": round(seconds, 1),
        "per_second": round(count / seconds),
        "memory_mb": held,
        "growth_mb": round(max(held) - held[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    found = measure(parser.parse_args().count)
    print(json.dumps(found))
    if float(str(found["growth_mb"])) > GROWTH_MB:
        sys.exit(1)


if __name__ == "__main__":
    main()
