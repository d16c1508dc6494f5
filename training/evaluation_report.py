"""What an evaluation found: pass@k with intervals, by what kinds of tasks, at which cost, and what failed.

Each benchmark stands for itself: nothing is averaged over two of them. An attempt without a result (our machinery, a
verifier that broke) is counted and is in no rate; `pass_at_1_at_least` says what the rate were had all of these failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pipeline.pass_rates import PassRates, Tally, pass_at, pass_rates
from pipeline.quality.agreement import Mean, share_of
from pipeline.rollout_report import (
    Failures,
    RecordedAttempt,
    Spent,
    failures_of,
    recorded_attempts,
    spent_by,
    tallies_of,
)
from pipeline.types import Record
from training.evaluation_folder import EvaluatedPolicy, EvaluationFolder
from training.evaluation_leaks import HeldOut
from training.evaluation_tasks import EvaluatedTask

MOST_K = 16
TURNS = (5, 10, 20, 50)
"""Last number of turns of each bin but the last one."""


class BenchmarkFigures(Record):
    """Of the instances of one benchmark."""

    benchmark: str
    instances: int
    """That are evaluated."""
    planned: int
    """Attempts: the runs of all instances."""
    begun: int
    """… of which somebody tried to make so many."""
    judged: int
    """… that have a verdict: those that are in the rates."""
    passed: int
    pass_at_k: dict[int, Mean]
    """By k, up to the runs and to 16: mean over the instances (`n`) with as many results, and its 95 % interval by a
    bootstrap over instances."""
    pass_at_1_by_repository: Mean | None
    """The same pass@1 with the interval of a bootstrap over repositories; None for too few of them."""
    pass_at_1_at_least: float | None
    """What pass@1 were if all begun attempts without a verdict had failed."""
    by_domain: dict[str, PassRates]
    by_language: dict[str, PassRates]
    by_difficulty: dict[str, PassRates]
    by_family: dict[str, PassRates]
    by_turns: dict[str, Mean]
    """Share of attempts that passed, by how many turns they took, with Wilson's interval. Hard tasks take more turns,
    so that this is no effect of turns."""
    failures: Failures
    """Kind -> class -> attempts. Those of `agent` are results, the others are not."""
    stop_reasons: dict[str, int]
    spent: Spent
    mean_turns: float | None


class EvaluationReport(Record):
    """All that can be said of one evaluation."""

    name: str
    created_at: str
    policy: EvaluatedPolicy
    runs: int
    code_commits: tuple[str, ...]
    held_out: HeldOut | None
    """What was left out and why; None for a model of which nobody knows what it was trained on."""
    instances: int
    attempts: int
    """That were begun."""
    judged: int
    benchmarks: tuple[BenchmarkFigures, ...]
    """By name."""


def evaluation_report(folder: EvaluationFolder) -> EvaluationReport:
    """Count what the tables of an evaluation hold now. Raises ConfigurationError where there is none, TableDamaged."""
    evaluation = folder.read()
    tasks = folder.tasks(evaluation)
    made = recorded_attempts(folder.store)
    by_benchmark: dict[str, list[EvaluatedTask]] = {}
    for task in tasks:
        by_benchmark.setdefault(task.benchmark, []).append(task)
    figures = [_figures(name, by_benchmark[name], made, evaluation.runs) for name in sorted(by_benchmark)]
    return EvaluationReport(
        **evaluation.model_dump(include={"name", "created_at", "policy", "runs", "code_commits", "held_out"}),
        instances=len(tasks),
        attempts=sum(one.begun for one in figures),
        judged=sum(one.judged for one in figures),
        benchmarks=tuple(figures),
    )


def instance_tallies(tasks: Iterable[EvaluatedTask], made: Iterable[RecordedAttempt]) -> dict[str, Tally]:
    """How often each of the tasks was attempted, judged and passed; never, for one without attempts."""
    tallies = tallies_of(made)
    return {task.instance_id: tallies.get(task.instance_id, Tally(0, 0, 0)) for task in tasks}


def _figures(
    benchmark: str, tasks: Sequence[EvaluatedTask], all_made: Sequence[RecordedAttempt], runs: int
) -> BenchmarkFigures:
    ids = {task.instance_id for task in tasks}
    made = [one for one in all_made if one.instance_id in ids]
    recorded = [one for one in made if one.recorded]
    tallies = instance_tallies(tasks, made)
    whole, spent = list(tallies.values()), spent_by(recorded)
    by_repository = pass_at(whole, (1,), [task.full_name for task in tasks])

    def parts(of: Callable[[EvaluatedTask], str]) -> dict[str, PassRates]:
        return _parts(tasks, tallies, of)

    return BenchmarkFigures(
        benchmark=benchmark,
        instances=len(tasks),
        planned=len(tasks) * runs,
        begun=len(made),
        judged=sum(one.judged for one in whole),
        passed=sum(one.passed for one in whole),
        pass_at_k=pass_at(whole, range(1, min(MOST_K, runs) + 1)),
        pass_at_1_by_repository=by_repository.get(1),
        pass_at_1_at_least=_at_least(whole),
        by_domain=parts(lambda task: task.instance.domain),
        by_language=parts(lambda task: task.instance.language),
        by_difficulty=parts(lambda task: task.instance.difficulty),
        by_family=parts(lambda task: task.instance.family),
        by_turns=_by_turns(recorded),
        failures=failures_of(made),
        stop_reasons=dict(Counter(one.stop_reason for one in recorded if one.stop_reason is not None)),
        spent=spent,
        mean_turns=round(spent.turns / len(recorded), 2) if recorded else None,
    )


def _parts(
    tasks: Sequence[EvaluatedTask], tallies: Mapping[str, Tally], of: Callable[[EvaluatedTask], str]
) -> dict[str, PassRates]:
    groups: dict[str, list[Tally]] = {}
    for task in tasks:
        groups.setdefault(of(task), []).append(tallies[task.instance_id])
    return {name: pass_rates(groups[name]) for name in sorted(groups)}


def _at_least(tallies: Iterable[Tally]) -> float | None:
    found = pass_at([one._replace(judged=one.attempts) for one in tallies], (1,))
    return found[1].mean if found else None


def _by_turns(recorded: Iterable[RecordedAttempt]) -> dict[str, Mean]:
    names = [f"{first}-{last}" for first, last in zip((0, *(one + 1 for one in TURNS)), TURNS, strict=False)]
    names.append(f"more than {TURNS[-1]}")
    counts = {name: [0, 0] for name in names}
    for one in recorded:
        if one.outcome in {"passed", "failed"}:
            count = counts[names[sum(one.turns > last for last in TURNS)]]
            count[0] += one.outcome == "passed"
            count[1] += 1
    shares = {name: share_of(passed, judged) for name, (passed, judged) in counts.items()}
    return {name: share for name, share in shares.items() if share is not None}
