"""MinHash: a text of any length as a row of numbers whose equal places estimate how much two texts share.

Tasks (dedup.py), attempts (copies.py) and benchmarks (benchmark_overlap.py) are compared by it, each over words of its
own choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasketch import MinHash

SHINGLE_WORDS = 3
_AT_ONCE = 4_096
"""Shingles hashed in one go: a step needs `permutations` times 8 bytes for each."""


def shingles(words: Sequence[str]) -> set[str]:
    """Overlapping runs of words."""
    return set(_runs(words))


def minhash(words: Sequence[str], permutations: int) -> MinHash:
    """The signature of a sequence of words, the same on each machine."""
    made = _empty(permutations).copy()
    runs = iter(sorted(shingles(words)))
    while part := [run.encode() for run in itertools.islice(runs, _AT_ONCE)]:
        made.update_batch(part)
    return made


def _runs(words: Sequence[str]) -> Iterator[str]:
    if len(words) <= SHINGLE_WORDS:
        yield " ".join(words)
        return
    shifted: Iterable[tuple[str, ...]] = zip(*(words[i:] for i in range(SHINGLE_WORDS)), strict=False)
    yield from map(" ".join, shifted)


@cache
def _empty(permutations: int) -> MinHash:
    from datasketch import MinHash  # brings SciPy, a second, needed only when texts are compared

    return MinHash(num_perm=permutations, seed=1)
