"""Which verified attempts are in a version of the data set, and why the others are not.

The steps come in the order of STEPS; what one excludes comes to no later one, so each excluded attempt has one reason.
A pure function of the attempts, the configuration and the reviews: the order of attempts does not matter. A version may
lose an attempt that an earlier one had when the list of the denied, the licences, the benchmarks or the reviews change,
when a better copy of it comes (copies.py), or when a run of words that many tasks share stops to be boilerplate.

Where the attempts come from is in pipeline/candidates.py; writing the version is publishing's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pipeline.contexts import PERMISSIVE
from pipeline.curation.benchmark_overlap import Overlap, boilerplate, judged
from pipeline.curation.copies import Attempted, Copy, exact_copies, near_copies
from pipeline.curation.decontamination import Contamination
from pipeline.curation.deny_list import Denied, denied
from pipeline.curation.reviews import Review
from pipeline.types import Record

Step = Literal["denied", "licence", "contaminated", "scrub", "exact_copy", "near_copy"]
STEPS: tuple[Step, ...] = get_args(Step)

WAITS = "waits for review"


class DatasetConfig(Record):
    """Which verified attempts are published."""

    licences: tuple[str, ...] = tuple(sorted(PERMISSIVE))
    """SPDX ids under which repositories and contexts are taken; no licence, an unknown one or several are out."""
    deny: tuple[Denied, ...] = ()
    """Repositories that are in no future version."""
    tokenizer: Path | None = None
    """A tokenizer.json, or its folder: counts the tokens of each row. Relative to the configuration; None for none."""
    reviews: Path | None = None
    """CSV file (id,decision,who,why) of what people decided; relative to the configuration."""


class Context(NamedTuple):
    """Material that a task was made from."""

    name: str
    license: str | None


@dataclass(frozen=True, slots=True)
class Curated:
    """What the stage `curation` found of an attempt."""

    attempted: Attempted
    overlaps: tuple[Overlap, ...]
    unscrubbable: str
    """Why no placeholder can stand for a secret; empty where each can."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A verified attempt, without its texts."""

    trajectory_id: str
    instance_id: str
    source: str
    full_name: str
    license: str | None
    no_license: str
    """Why there is none, as the files of the repository said."""
    contexts: tuple[Context, ...]
    task: Contamination
    """What its task has in common with the benchmarks."""
    curated: Curated | None
    uncurated: str = ""
    """Why there is no `curated`."""


class Excluded(NamedTuple):
    """An attempt that is not in the version."""

    trajectory_id: str
    step: Step
    reason: str
    other: str | None = None
    """The attempt it copies, or the benchmark's task it is near to."""


class Queued(Record):
    """An attempt that somebody should look at; it is out until somebody did."""

    trajectory_id: str
    instance_id: str
    task: str | None
    """The benchmark's task it is near to."""
    reason: str


class StepCount(Record):
    """What one step did."""

    step: Step
    came: int
    excluded: int
    left: int


@dataclass(frozen=True)
class Decisions:
    """What becomes of each candidate; kept and excluded together are all of them."""

    kept: tuple[str, ...]
    """Trajectory ids, sorted."""
    excluded: tuple[Excluded, ...]
    """Sorted by trajectory id."""
    steps: tuple[StepCount, ...]
    queue: tuple[Queued, ...]


def decide(candidates: Iterable[Candidate], config: DatasetConfig, reviews: Mapping[str, Review]) -> Decisions:
    """What is in the version, what is not and why."""
    left = sorted(candidates, key=lambda one: one.trajectory_id)
    found = _contaminations(left)
    listed = denied(((one.source, one.full_name) for one in left), config.deny)
    queue = tuple(
        Queued(trajectory_id=one.trajectory_id, instance_id=one.instance_id, task=seen.task, reason=seen.reason)
        for one, seen in zip(left, found.values(), strict=True)
        if seen.decision == "review" and _review_of(one, reviews) is None
    )
    rules: dict[Step, Callable[[Sequence[Candidate]], dict[str, Excluded]]] = {
        "denied": lambda rows: _each(rows, lambda one: _denied(one, listed)),
        "licence": lambda rows: _each(rows, lambda one: _unlicensed(one, frozenset(config.licences))),
        "contaminated": lambda rows: _each(rows, lambda one: _contaminated(one, found[one.trajectory_id], reviews)),
        "scrub": lambda rows: _each(rows, _unscrubbed),
        "exact_copy": lambda rows: _copied("exact_copy", exact_copies(_attempted(rows))),
        "near_copy": lambda rows: _copied("near_copy", near_copies(_attempted(rows))),
    }
    excluded: list[Excluded] = []
    steps: list[StepCount] = []
    for step in STEPS:
        out = rules[step](left)
        came, left = len(left), [one for one in left if one.trajectory_id not in out]
        steps.append(StepCount(step=step, came=came, excluded=len(out), left=len(left)))
        excluded += out.values()
    out_before = {one.trajectory_id for one in excluded if one.step in ("denied", "licence")}
    return Decisions(
        kept=tuple(one.trajectory_id for one in left),
        excluded=tuple(sorted(excluded)),
        steps=tuple(steps),
        queue=tuple(one for one in queue if one.trajectory_id not in out_before),
    )


def _each(rows: Sequence[Candidate], rule: Callable[[Candidate], Excluded | None]) -> dict[str, Excluded]:
    return {one.trajectory_id: out for one in rows if (out := rule(one)) is not None}


def _denied(one: Candidate, listed: Mapping[tuple[str, str], Denied]) -> Excluded | None:
    entry = listed.get((one.source, one.full_name))
    if entry is None:
        return None
    note = f": {entry.note}" if entry.note else ""
    return Excluded(one.trajectory_id, "denied", f"{one.full_name} is denied ({entry.why}, {entry.date}){note}")


def _unlicensed(one: Candidate, allowed: frozenset[str]) -> Excluded | None:
    if one.license is None:
        why = one.no_license or "no licence was recognised"
        return Excluded(one.trajectory_id, "licence", f"the licence of {one.full_name} is not known: {why}")
    if one.license not in allowed:
        return Excluded(one.trajectory_id, "licence", f"{one.full_name} is under {one.license}, which is not allowed")
    for context in one.contexts:
        if context.license not in allowed:
            under = f"is under {context.license}, which is not allowed" if context.license else "has no known licence"
            return Excluded(one.trajectory_id, "licence", f"the context {context.name} {under}")
    return None


def _contaminations(rows: Sequence[Candidate]) -> dict[str, Contamination]:
    """The worse of what its task and what the attempt itself has in common with benchmarks, for each attempt."""
    overlaps = [(one.instance_id, one.curated.overlaps) for one in rows if one.curated and one.curated.overlaps]
    masked = boilerplate(overlaps, len({one.instance_id for one in rows}))
    found: dict[str, Contamination] = {}
    for one in rows:
        own = judged(one.curated.overlaps, masked) if one.curated else Contamination(decision="clean")
        order = ("drop", "review", "clean")
        found[one.trajectory_id] = min(one.task, own, key=lambda seen: order.index(seen.decision))
    return found


def _contaminated(one: Candidate, seen: Contamination, reviews: Mapping[str, Review]) -> Excluded | None:
    review = _review_of(one, reviews)
    if seen.decision == "drop":
        return Excluded(one.trajectory_id, "contaminated", seen.reason, seen.task)
    if review is not None and review.decision == "drop":
        why = f": {review.why}" if review.why else ""
        return Excluded(one.trajectory_id, "contaminated", f"dropped in review by {review.who}{why}", seen.task)
    if seen.decision == "review" and review is None:
        return Excluded(one.trajectory_id, "contaminated", f"{WAITS}: {seen.reason}", seen.task)
    return None


def _review_of(one: Candidate, reviews: Mapping[str, Review]) -> Review | None:
    """That of the attempt before that of its task."""
    return reviews.get(one.trajectory_id) or reviews.get(one.instance_id)


def _unscrubbed(one: Candidate) -> Excluded | None:
    why = one.curated.unscrubbable if one.curated else one.uncurated or "it was not looked through"
    return Excluded(one.trajectory_id, "scrub", why) if why else None


def _attempted(rows: Sequence[Candidate]) -> list[Attempted]:
    return [one.curated.attempted for one in rows if one.curated is not None]


def _copied(step: Step, copies: Mapping[str, Copy]) -> dict[str, Excluded]:
    return {name: Excluded(name, step, _copy_reason(step, copy), copy.kept_id) for name, copy in copies.items()}


def _copy_reason(step: Step, copy: Copy) -> str:
    if step == "exact_copy":
        return f"the same commands for the same instruction as {copy.kept_id}"
    return f"commands as in {copy.kept_id}, similarity {copy.similarity:.2f}"
