"""What a policy reached at the tasks of a published benchmark of hierarchies: how much it solved, at which cost.

Only the first attempt at each task counts. One without a verdict (our machinery failed, or nobody tried) is in no rate;
`pass_at_1_at_least` says what the rate were had all of these failed. Nothing is averaged over two splits.

Not here: who plays the tasks, and how the attempts come into the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from pipeline.errors import ConfigurationError
from pipeline.hierarchy.columns import BENCHMARK, BENCHMARK_KEY
from pipeline.pass_rates import Tally, pass_at
from pipeline.quality.agreement import Mean, mean_of
from pipeline.rows import trajectory_of
from pipeline.schemas import Row, to_rows
from pipeline.snapshots import load, manifest_of
from pipeline.stages.game_verdicts import score_of
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.types import Record

HELD_OUT = ("id", "ood")
"""Splits that policies are asked to solve."""
_FIRST = 0
"""Number of the first attempt."""


class PolicyTokens(Record):
    """What the calls of one policy took, in the attempts with a verdict."""

    calls: int
    uncounted: int
    """Calls of which the server did not say how many tokens they took; they are in no sum."""
    prompt_tokens: int
    completion_tokens: int
    per_attempt: float | None
    """Tokens of both, mean over the attempts; None where a call is not counted."""


class GroupScore(Record):
    """Of some tasks."""

    tasks: int
    judged: int
    """… whose first attempt has a verdict: those that are in the rates."""
    passed: int
    pass_at_1: Mean | None
    """Share that the first attempt solved, with the 95 % interval of a bootstrap over tasks; None of nothing."""
    pass_at_1_at_least: float
    """What it were if all tasks without a verdict had failed."""
    final_score: Mean | None
    """Last score, 1 is full: mean with the 95 % interval of a bootstrap over tasks."""
    mean_steps: float | None


class SplitScore(GroupScore):
    """Of the tasks of one split."""

    by_difficulty: dict[str, GroupScore]
    tokens: dict[str, PolicyTokens]
    """By what the calls were for: plan, decision, progress; empty without a model."""


class BenchmarkScore(Record):
    """All that is told of one policy at one benchmark."""

    benchmark: str
    """NAME@VERSION."""
    agent: str
    model: str | None
    splits: dict[str, SplitScore]


class _Result(NamedTuple):
    """The first attempt at a task that has a verdict."""

    passed: bool
    score: float
    steps: int
    calls: Sequence[Mapping[str, object]]


def score(
    version: Path, store: Store, agent: str, model: str | None = None, splits: Sequence[str] = HELD_OUT
) -> BenchmarkScore:
    """Count what the tables of `store` hold of one policy at the tasks of a version of a benchmark, in this folder.

    Raises ConfigurationError for a version that is no benchmark or lacks a split, SnapshotDamaged, TableDamaged.
    """
    manifest = manifest_of(version)
    if manifest.key != BENCHMARK_KEY or manifest.schema_version != BENCHMARK.version:
        raise ConfigurationError(f"{manifest.name}@{manifest.version} is no benchmark of this version of the code")
    if missing := sorted(set(splits) - set(manifest.splits)):
        raise ConfigurationError(
            f"{manifest.name}@{manifest.version} has no split {', '.join(missing)}; it has {', '.join(manifest.splits)}"
        )
    tasks = to_rows(load(version).select(["task_id", "split", "difficulty"]))
    results = _results(store, {str(task["task_id"]) for task in tasks if task["split"] in splits}, agent, model)
    by_split = {name: [task for task in tasks if task["split"] == name] for name in splits}
    return BenchmarkScore(
        benchmark=f"{manifest.name}@{manifest.version}",
        agent=agent,
        model=model,
        splits={name: _split(chosen, results) for name, chosen in by_split.items()},
    )


def _results(store: Store, wanted: set[str], agent: str, model: str | None) -> dict[str, _Result]:
    """By task. One attempt is in memory at a time, besides its calls."""
    verdicts = {
        row["trajectory_id"]: row["outcome"]
        for row in to_rows(store.current("verifications", ["trajectory_id", "outcome"]))
    }
    stored = StoredRows(store, "trajectories", ["trajectory_id", "instance_id", "agent", "model", "sample"])
    found = {}
    for number, row in enumerate(to_rows(stored.light)):
        outcome = verdicts.get(row["trajectory_id"])
        of_policy = (row["agent"], row["model"], row["sample"]) == (agent, model, _FIRST)
        if of_policy and row["instance_id"] in wanted and outcome in {"passed", "failed"}:
            trajectory = trajectory_of(stored.row(number))
            calls = [call for step in trajectory.steps for call in step.extra.get("calls", ())]
            steps = sum(bool(step.action) for step in trajectory.steps)
            found[str(row["instance_id"])] = _Result(outcome == "passed", score_of(trajectory), steps, calls)
    return found


def _split(tasks: Sequence[Row], results: Mapping[str, _Result]) -> SplitScore:
    difficulties = sorted({str(task["difficulty"]) for task in tasks})
    parts = {name: [task for task in tasks if task["difficulty"] == name] for name in difficulties}
    return SplitScore(
        **_group(tasks, results).model_dump(),
        by_difficulty={name: _group(part, results) for name, part in parts.items()},
        tokens=_tokens(list(_judged(tasks, results))),
    )


def _judged(tasks: Iterable[Row], results: Mapping[str, _Result]) -> Iterator[_Result]:
    return (results[str(task["task_id"])] for task in tasks if task["task_id"] in results)


def _group(tasks: Sequence[Row], results: Mapping[str, _Result]) -> GroupScore:
    judged = list(_judged(tasks, results))
    passed = sum(one.passed for one in judged)
    rates = pass_at([Tally(1, 1, int(one.passed)) for one in judged], (1,))
    return GroupScore(
        tasks=len(tasks),
        judged=len(judged),
        passed=passed,
        pass_at_1=rates.get(1),
        pass_at_1_at_least=round(passed / len(tasks), 3) if tasks else 0.0,
        final_score=mean_of([one.score for one in judged]),
        mean_steps=round(fmean(one.steps for one in judged), 2) if judged else None,
    )


def _tokens(judged: Sequence[_Result]) -> dict[str, PolicyTokens]:
    by_purpose: dict[str, list[tuple[object, object]]] = {}
    for one in judged:
        for call in one.calls:
            counts = (call.get("prompt_tokens"), call.get("completion_tokens"))
            by_purpose.setdefault(str(call.get("purpose", "decision")), []).append(counts)
    return {name: _of_policy(by_purpose[name], len(judged)) for name in sorted(by_purpose)}


def _of_policy(counts: Sequence[tuple[object, object]], attempts: int) -> PolicyTokens:
    known = [(asked, said) for asked, said in counts if isinstance(asked, int) and isinstance(said, int)]
    asked, said = sum(one for one, _ in known), sum(one for _, one in known)
    return PolicyTokens(
        calls=len(counts),
        uncounted=len(counts) - len(known),
        prompt_tokens=asked,
        completion_tokens=said,
        per_attempt=round((asked + said) / attempts, 1) if len(known) == len(counts) else None,
    )
