"""What is said of an arm: how often its attempts passed, with intervals, and by how much that differs from another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from pipeline.pass_rates import Tally, pass_at
from pipeline.quality.agreement import Mean
from pipeline.types import Record
from training.evaluation_compare import Difference, difference_of


class InstanceResult(Record):
    """Attempts of one arm at one instance."""

    name: str
    family: str
    judged: int
    passed: int


class ArmResult(Record):
    """Of one arm in one environment, over all seeds."""

    instances: int
    judged: int
    passed: int
    pass_at_k: dict[int, Mean]
    """95 % intervals by a bootstrap over instances; attempts of all seeds count as attempts."""
    by_family: dict[str, Mean]
    """pass@1."""
    by_seed: dict[str, float]
    """pass@1."""
    difference: Difference | None
    """pass@1 less that of the arm it is compared to, instance by instance; None for that one."""
    difference_by_family: dict[str, Difference]
    training: dict[str, dict[str, JsonValue]]
    """By seed; empty for weights as they are."""


Results = Mapping[int, Sequence[InstanceResult]]
"""By seed."""


def arm_result(
    results: Results, ks: Iterable[int], compared: Results | None, training: dict[str, dict[str, JsonValue]]
) -> ArmResult:
    """The figures of an arm beside those of the one that it is compared to."""
    pooled = _pooled(results)
    tallies = {name: _tally(one) for name, one in pooled.items()}
    families = sorted({one.family for one in pooled.values()})
    others = {} if compared is None else _pooled(compared)
    both = [name for name in pooled if name in others and pooled[name].judged and others[name].judged]
    return ArmResult(
        instances=len(pooled),
        judged=sum(one.judged for one in pooled.values()),
        passed=sum(one.passed for one in pooled.values()),
        pass_at_k=pass_at(list(tallies.values()), ks),
        by_family={
            family: rate
            for family in families
            if (rate := _rate([tallies[name] for name, one in pooled.items() if one.family == family])) is not None
        },
        by_seed={
            str(seed): rate.mean
            for seed, found in sorted(results.items())
            if (rate := _rate([_tally(one) for one in found])) is not None
        },
        difference=_difference(both, others, pooled),
        difference_by_family={
            family: found
            for family in families
            if (found := _difference([one for one in both if pooled[one].family == family], others, pooled)) is not None
        },
        training=training,
    )


def points(result: ArmResult | None) -> float | None:
    """pass@1 in percent."""
    return None if result is None or 1 not in result.pass_at_k else round(100 * result.pass_at_k[1].mean, 1)


def _pooled(results: Results) -> dict[str, InstanceResult]:
    found: dict[str, InstanceResult] = {}
    for one in (one for seed in sorted(results) for one in results[seed]):
        before = found.get(one.name)
        judged, passed = (before.judged, before.passed) if before is not None else (0, 0)
        found[one.name] = one.model_copy(update={"judged": one.judged + judged, "passed": one.passed + passed})
    return dict(sorted(found.items()))


def _tally(one: InstanceResult) -> Tally:
    return Tally(one.judged, one.judged, one.passed)


def _rate(tallies: Sequence[Tally]) -> Mean | None:
    return pass_at(tallies, (1,)).get(1)


def _difference(
    names: Sequence[str], a: Mapping[str, InstanceResult], b: Mapping[str, InstanceResult]
) -> Difference | None:
    pairs = [(a[name].passed / a[name].judged, b[name].passed / b[name].judged) for name in names]
    return difference_of(pairs) if pairs else None
