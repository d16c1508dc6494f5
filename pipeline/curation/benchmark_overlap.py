"""What an attempt has in common with a benchmark: a task can be of one's own and its attempt still quote a solution.

Found once for each attempt (`HeldOut.overlaps`), judged when all are known (`judged`): what many tasks of ours say is
boilerplate, and only then can that be seen. The rule is that of decontamination.py, for each part of the attempt by
itself, so that no long output hides a solution; runs of fewer than 12 words drop nothing.

Tasks are compared in decontamination.py, the folders of a benchmark are read in benchmarks.py.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pipeline.curation.benchmarks import BenchmarkTask
from pipeline.curation.commands import normalised, normalised_prose, words
from pipeline.curation.copies import PERMUTATIONS, SIGNATURE_TYPE, signature_bytes
from pipeline.curation.decontamination import (
    BOILERPLATE_SHARE,
    BOILERPLATE_TASKS,
    DROP_SHARE,
    DROP_WORDS,
    REVIEW_WORDS,
    Contamination,
    Run,
    common_runs,
    runs_of,
    words_of,
)
from pipeline.curation.dedup import THRESHOLD
from pipeline.curation.signatures import minhash
from pipeline.types import Record

Part = Literal["task", "commands", "thoughts", "observations"]
"""`task`: instruction and verifier."""
PARTS: tuple[Part, ...] = get_args(Part)

DROP_RUNS = 5
"""Shared runs of 8 words, one after the other 12 words, below which no share of a short text counts."""
SIGNATURE_WORDS = 20
"""Words that both texts have at least when their signatures are compared."""
MAX_WORDS = 1_000_000
"""Words of one part that are compared; an attempt with more waits for a review."""
_WORD = re.compile(r"[a-z0-9]+")


class Overlap(Record):
    """What one part of an attempt shares with one task of the benchmark."""

    task: str
    """Name of the benchmark's task; empty where the part was too long to be compared as a whole."""
    part: Part
    n_runs: int = 0
    """Different runs of 8 words in the part."""
    short: tuple[int, ...] = ()
    """Shared runs of 8 words, by hash, sorted."""
    long: tuple[int, ...] = ()
    """Shared runs of 13 words, by hash, sorted."""
    quoted: tuple[str, ...] = ()
    """The first shared runs of 13 words, for whoever reviews them; as many of `long` have no text."""
    similarity: float = 0.0
    """MinHash: of both instructions, or of the commands with the benchmark's solution."""


@dataclass(frozen=True)
class AttemptTexts:
    """What is compared of one attempt."""

    instruction: str
    verifier: str
    commands: Sequence[str]
    """Normalised."""
    thoughts: Sequence[str]
    observations: Sequence[str]
    commands_signature: bytes
    instruction_signature: bytes

    def part(self, part: Part) -> Sequence[str]:
        of: dict[Part, Sequence[str]] = {
            "task": (self.instruction, self.verifier),
            "commands": self.commands,
            "thoughts": self.thoughts,
            "observations": self.observations,
        }
        return of[part]


@dataclass
class HeldOut:
    """The tasks of benchmarks, prepared for comparison with any number of attempts."""

    tasks: Sequence[BenchmarkTask]
    max_words: int = MAX_WORDS
    _runs: dict[Run, set[int]] = field(default_factory=dict)
    _solutions: NDArray[Any] = field(init=False)
    _instructions: NDArray[Any] = field(init=False)

    def __post_init__(self) -> None:
        found = [words_of(f"{task.instruction}\n{task.tests}\n{task.solution}") for task in self.tasks]
        for length in (REVIEW_WORDS, DROP_WORDS):
            of_tasks = [runs_of(one, length) for one in found]
            common = common_runs(of_tasks)
            for number, runs in enumerate(of_tasks):
                for run in runs - common:
                    self._runs.setdefault(run, set()).add(number)
        self._solutions = _signatures(words(normalised([task.solution], task.instruction)) for task in self.tasks)
        self._instructions = _signatures(words([normalised_prose(task.instruction)]) for task in self.tasks)

    def overlaps(self, attempt: AttemptTexts) -> list[Overlap]:
        """What the attempt shares with each task; nothing of tasks and parts that share nothing."""
        return [overlap for part in PARTS for overlap in self._of_part(part, attempt)]

    def _of_part(self, part: Part, attempt: AttemptTexts) -> Iterator[Overlap]:
        texts = attempt.part(part)
        n_words, n_runs, shared = self._shared(texts)
        if n_words > self.max_words:
            yield Overlap(task="", part=part)
        alike = self._alike(part, attempt, n_words)
        for number in sorted({*shared, *alike}):
            runs = shared.get(number, {})
            long = [run for run in runs if len(run) == REVIEW_WORDS]
            yield Overlap(
                task=self.tasks[number].name,
                part=part,
                n_runs=n_runs,
                short=tuple(sorted(_hashed(run) for run in runs if len(run) == DROP_WORDS)),
                long=tuple(sorted(map(_hashed, long))),
                quoted=tuple(" ".join(run) for run in long[:_QUOTED]),
                similarity=alike.get(number, 0.0),
            )

    def _shared(self, texts: Sequence[str]) -> tuple[int, int, dict[int, dict[Run, None]]]:
        """(words, different runs of 8 words, runs in common by number of the task in the order of the text)."""
        shared: dict[int, dict[Run, None]] = {}
        found = list(islice(_words(texts), self.max_words + 1))
        different: set[int] = set()
        for length in (DROP_WORDS, REVIEW_WORDS):
            for run in zip(*(islice(found, start, None) for start in range(length)), strict=False):
                if length == DROP_WORDS:
                    different.add(hash(run))
                for number in self._runs.get(run, ()):
                    shared.setdefault(number, {})[run] = None
        return len(found), len(different), shared

    def _alike(self, part: Part, attempt: AttemptTexts, n_words: int) -> dict[int, float]:
        """Similarities from the threshold on, by number of the task."""
        if part == "task" and len(words_of(attempt.instruction)) >= SIGNATURE_WORDS:
            signature, others = attempt.instruction_signature, self._instructions
        elif part == "commands" and n_words >= SIGNATURE_WORDS:
            signature, others = attempt.commands_signature, self._solutions
        else:
            return {}
        near = np.mean(others == np.frombuffer(signature, SIGNATURE_TYPE), axis=1)
        return {int(number): round(float(near[number]), 3) for number in np.flatnonzero(near >= THRESHOLD)}


_QUOTED = 20
"""Texts kept of the runs that one part shares with one task."""


def boilerplate(found: Iterable[tuple[str, Sequence[Overlap]]], n_instances: int) -> frozenset[int]:
    """Runs that so many of our tasks share with the benchmark that they say nothing; given (instance id, overlaps)."""
    of_tasks: dict[str, set[int]] = {}
    for instance_id, overlaps in found:
        of_tasks.setdefault(instance_id, set()).update(run for one in overlaps for run in (*one.short, *one.long))
    counts = Counter(run for runs in of_tasks.values() for run in runs)
    least = max(BOILERPLATE_TASKS, BOILERPLATE_SHARE * n_instances)
    return frozenset(run for run, count in counts.items() if count >= least)


def judged(overlaps: Sequence[Overlap], masked: frozenset[int]) -> Contamination:
    """The worst that can be said of an attempt; `masked` runs count for nothing."""
    found = Contamination(decision="clean")
    for one in overlaps:
        if one.similarity >= THRESHOLD:
            return _drop(one, f"similarity {one.similarity:.2f} of its {one.part} with {one.task}")
        short = set(one.short) - masked
        runs = one.n_runs - len(one.short) + len(short)
        if len(short) >= DROP_RUNS and len(short) >= DROP_SHARE * runs:
            share = len(short) / runs
            return _drop(one, f"{share:.0%} of the runs of {DROP_WORDS} words in its {one.part} stand in {one.task}")
        if reason := _review(one, masked):
            found = Contamination(decision="review", task=one.task or None, reason=reason)
    return found


def _drop(one: Overlap, reason: str) -> Contamination:
    return Contamination(decision="drop", task=one.task, reason=reason)


def _review(one: Overlap, masked: frozenset[int]) -> str:
    """Why somebody should look; empty for no reason."""
    if not one.task:
        return f"its {one.part} are too long to be compared as a whole"
    if not set(one.long) - masked:
        return ""
    quoted = next((text for text in one.quoted if _hashed(tuple(text.split())) not in masked), None)
    what = repr(quoted) if quoted else f"{REVIEW_WORDS} words in a row"
    return f"its {one.part} share with {one.task}: {what}"


def overlap_rows(overlaps: Iterable[Overlap]) -> list[Mapping[str, object]]:
    """As the column holds them."""
    return [one.model_dump() for one in overlaps]


def _signatures(texts: Iterable[list[str]]) -> NDArray[Any]:
    """A row for each text; one that no signature equals where the text is too short."""
    rows = [
        np.frombuffer(signature_bytes(minhash(text, PERMUTATIONS).hashvalues), SIGNATURE_TYPE).astype(np.int64)
        if len(text) >= SIGNATURE_WORDS
        else np.full(PERMUTATIONS, -1, dtype=np.int64)
        for text in texts
    ]
    return np.array(rows).reshape(-1, PERMUTATIONS)


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (found.group() for found in _WORD.finditer(text.lower()))


def _hashed(run: Run) -> int:
    """The same in each process."""
    return int.from_bytes(hashlib.sha256(" ".join(run).encode()).digest()[:8], "big", signed=True)
