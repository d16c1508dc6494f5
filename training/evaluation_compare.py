"""Two evaluations over the same instances, instance by instance: is one policy better, and by how much?

Instances differ far more from each other than policies do, so what is compared is the difference at each instance.
Each benchmark stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

from pipeline.errors import ConfigurationError
from pipeline.pass_rates import Tally
from pipeline.quality.agreement import mean_of
from pipeline.rollout_report import recorded_attempts
from pipeline.types import Record
from training.evaluation_folder import EvaluationFolder, differences
from training.evaluation_report import instance_tallies
from training.evaluation_tasks import EvaluatedTask


class Difference(Record):
    """pass@1 of b less that of a, over instances that have results of both."""

    instances: int
    a: float
    """pass@1 of the first evaluation."""
    b: float
    difference: float
    """Mean over instances of b - a."""
    low: float
    high: float
    """95 % interval of `difference`, by a bootstrap over instances that keeps the two results of each together."""
    better: int
    """Instances that b passed more often."""
    worse: int
    p_value: float
    """How likely so uneven a split of better and worse is where neither is better: exact two-sided sign test, which
    with one run each is McNemar's. Instances without a difference say nothing."""


class BenchmarkDifference(Record):
    """Of the instances of one benchmark."""

    benchmark: str
    overall: Difference
    by_family: dict[str, Difference]


class Comparison(Record):
    """Evaluation `b` beside evaluation `a`."""

    a: str
    b: str
    policies: tuple[str, ...]
    """What differs between them, by the path of the field."""
    compared: int
    """Instances with results of both."""
    only_a: int
    """Instances with results of `a` alone, which are not compared."""
    only_b: int
    benchmarks: tuple[BenchmarkDifference, ...]


def compare(a: EvaluationFolder, b: EvaluationFolder) -> Comparison:
    """Compare over the instances that both have results of.

    Raises ConfigurationError for an evaluation that is not there, and when there is no such instance.
    """
    first, second = a.read(), b.read()
    tasks = {task.instance_id: task for task in [*a.tasks(first), *b.tasks(second)]}
    rates = [_rates(folder, tasks.values()) for folder in (a, b)]
    both = sorted(set(rates[0]) & set(rates[1]))
    if not both:
        raise ConfigurationError(f"evaluations {a.name} and {b.name} have no instance in common with results of both")
    groups: dict[str, list[EvaluatedTask]] = {}
    for instance_id in both:
        groups.setdefault(tasks[instance_id].benchmark, []).append(tasks[instance_id])
    policies = differences(first.policy.model_dump(mode="json"), second.policy.model_dump(mode="json"))
    return Comparison(
        a=a.name,
        b=b.name,
        policies=tuple(policies),
        compared=len(both),
        only_a=len(rates[0]) - len(both),
        only_b=len(rates[1]) - len(both),
        benchmarks=tuple(
            BenchmarkDifference(
                benchmark=name,
                overall=_difference(groups[name], *rates),
                by_family=_by_family(groups[name], *rates),
            )
            for name in sorted(groups)
        ),
    )


def sign_test(better: int, worse: int) -> float:
    """Two-sided p-value of a split as uneven as this one where both are as likely; 1 where there is none."""
    trials = better + worse
    tail = sum(comb(trials, count) for count in range(min(better, worse) + 1)) * 0.5**trials
    return min(1.0, 2 * tail)


def difference_of(pairs: Sequence[tuple[float, float]]) -> Difference:
    """Of pass@1 of a and of b at each instance, of which there is at least one."""
    mean = mean_of([second - first for first, second in pairs])
    assert mean is not None
    better, worse = sum(second > first for first, second in pairs), sum(second < first for first, second in pairs)
    return Difference(
        instances=len(pairs),
        a=round(fmean(first for first, _ in pairs), 3),
        b=round(fmean(second for _, second in pairs), 3),
        difference=mean.mean,
        low=mean.low,
        high=mean.high,
        better=better,
        worse=worse,
        p_value=float(f"{sign_test(better, worse):.3g}"),
    )


def _rates(folder: EvaluationFolder, tasks: Iterable[EvaluatedTask]) -> dict[str, float]:
    """Share of judged attempts that passed, by instance; nothing for one without a result."""
    tallies: Mapping[str, Tally] = instance_tallies(tasks, recorded_attempts(folder.store))
    return {instance_id: one.passed / one.judged for instance_id, one in tallies.items() if one.judged}


def _by_family(tasks: Sequence[EvaluatedTask], a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, Difference]:
    groups: dict[str, list[EvaluatedTask]] = {}
    for task in tasks:
        groups.setdefault(task.instance.family, []).append(task)
    return {name: _difference(groups[name], a, b) for name in sorted(groups)}


def _difference(tasks: Sequence[EvaluatedTask], a: Mapping[str, float], b: Mapping[str, float]) -> Difference:
    return difference_of([(a[task.instance_id], b[task.instance_id]) for task in tasks])
