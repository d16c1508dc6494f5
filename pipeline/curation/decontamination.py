"""Finds tasks that come too near to a benchmark's: what is shared is dropped, or shown to somebody.

The rule: any shared run of 13 words is for review; a tenth of the runs of 8 words, or a MinHash similarity of 0.5 or
more, drops the task. What is boilerplate, on either side, is left out first: a run that stands in many tasks says
nothing of any one. Reading the benchmark is benchmarks.py's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipeline.curation.benchmarks import BenchmarkTask
from pipeline.curation.dedup import THRESHOLD, Signature, TaskText, closest_of, signature
from pipeline.types import Record

REVIEW_WORDS, DROP_WORDS = 13, 8
DROP_SHARE = 0.1
BOILERPLATE_TASKS, BOILERPLATE_SHARE = 3, 0.05
"""A run in at least so many tasks, and in at least this share of them, is boilerplate."""
NAMES = 2
"""Unusual file names that have to be shared for a review."""
_WORD = re.compile(r"[a-z0-9]+")
_FILE = re.compile(r"\b[\w-]{3,}\.[a-z][a-z0-9]{0,5}\b", re.IGNORECASE)
_NAME_PARTS = 2
"""Parts that the name of a benchmark's task has at least, to be looked for in texts."""

Decision = Literal["clean", "review", "drop"]
Run = tuple[str, ...]


class Contamination(Record):
    """What one task has in common with the benchmark."""

    decision: Decision
    task: str | None = None
    """The benchmark's task that it is nearest to; None when it is clean."""
    reason: str = ""


class Ours(Record):
    """What is compared of a task of ours."""

    instance_id: str
    repository: str
    """Full name of its repository."""
    instruction: str
    verifier: str


@dataclass(frozen=True)
class _Held:
    """One task of the benchmark, prepared."""

    task: BenchmarkTask
    long: set[Run]
    short: set[Run]
    files: set[str]


@dataclass
class Benchmark:
    """The held-out tasks, prepared for comparison with any number of ours."""

    tasks: Sequence[BenchmarkTask]
    _held: list[_Held] = field(default_factory=list)
    _signatures: dict[str, Signature] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = [words_of(f"{task.instruction}\n{task.tests}") for task in self.tasks]
        long, short = [runs_of(one, REVIEW_WORDS) for one in words], [runs_of(one, DROP_WORDS) for one in words]
        files = [set(_FILE.findall(f"{task.instruction}\n{task.tests}")) for task in self.tasks]
        common = {*common_runs(long), *common_runs(short)}
        usual = {name for name, count in Counter(name for one in files for name in one).items() if count > 1}
        self._held = [
            _Held(task, a - common, b - common, c - usual)
            for task, a, b, c in zip(self.tasks, long, short, files, strict=True)
        ]
        self._signatures = {
            str(number): signature(TaskText(instance_id=task.name, instruction=task.instruction, verifier=task.tests))
            for number, task in enumerate(self.tasks)
        }

    def check(self, tasks: Iterable[Ours]) -> dict[str, Contamination]:
        """What each task of ours has in common with the benchmark, by instance id; boilerplate of ours is left out."""
        given = list(tasks)
        words = {one.instance_id: words_of(f"{one.instruction}\n{one.verifier}") for one in given}
        long = {name: runs_of(one, REVIEW_WORDS) for name, one in words.items()}
        short = {name: runs_of(one, DROP_WORDS) for name, one in words.items()}
        common = {*common_runs(list(long.values())), *common_runs(list(short.values()))}
        return {
            one.instance_id: self._one(one, long[one.instance_id] - common, short[one.instance_id] - common)
            for one in given
        }

    def _one(self, ours: Ours, long: set[Run], short: set[Run]) -> Contamination:
        text = TaskText(instance_id=ours.instance_id, instruction=ours.instruction, verifier=ours.verifier)
        closest = closest_of(signature(text), self._signatures)
        if closest is not None and closest[1] >= THRESHOLD:
            name = self.tasks[int(closest[0])].name
            return Contamination(decision="drop", task=name, reason=f"similarity {closest[1]:.2f} with {name}")
        found = Contamination(decision="clean")
        for held in self._held:
            share = len(short & held.short) / len(short) if short else 0.0
            if share >= DROP_SHARE:
                reason = f"{share:.0%} of its runs of {DROP_WORDS} words stand in {held.task.name}"
                return Contamination(decision="drop", task=held.task.name, reason=reason)
            if reason := _review(ours, long, held):
                found = Contamination(decision="review", task=held.task.name, reason=reason)
        return found


def _review(ours: Ours, long: set[Run], held: _Held) -> str:
    """Why somebody should look; empty for no reason."""
    if shared := sorted(long & held.long):
        return f"shares with {held.task.name}: {' '.join(shared[0])!r}"
    text = f"{ours.instruction}\n{ours.verifier}"
    files = sorted(set(_FILE.findall(text)) & held.files)
    if len(files) >= NAMES:
        return f"files are called as in {held.task.name}: {', '.join(files[:5])}"
    parts = words_of(held.task.name)
    if len(parts) >= _NAME_PARTS and (_stands_in(parts, words_of(ours.repository)) or held.task.name in text):
        return f"it names {held.task.name}"
    return ""


def _stands_in(parts: Sequence[str], words: Sequence[str]) -> bool:
    return any(list(words[i : i + len(parts)]) == list(parts) for i in range(len(words) - len(parts) + 1))


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def runs_of(words: Sequence[str], length: int) -> set[Run]:
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def common_runs(texts: Sequence[set[Run]]) -> set[Run]:
    """Runs that stand in so many texts that they are boilerplate."""
    counts: Mapping[Run, int] = Counter(run for text in texts for run in text)
    least = max(BOILERPLATE_TASKS, BOILERPLATE_SHARE * len(texts))
    return {run for run, count in counts.items() if count >= least}
