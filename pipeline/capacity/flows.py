"""How many items come to each stage, so that the targets are reached.

Not here: what an item costs in machines, days and money (planning.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from pipeline.capacity.measures import Measure, Range, exactly, larger, one_over, times
from pipeline.capacity.stages import STAGES, Measured, Stage
from pipeline.errors import PipelineError
from pipeline.types import Record


class NotPlannable(PipelineError):
    """Nothing follows from what was measured. The text names the stage and how to measure it."""


class Targets(Record):
    """What the run is to reach; all of it where several are given."""

    trajectories: int | None = Field(default=None, gt=0)
    """Verified and kept by curation."""
    repositories: int | None = Field(default=None, gt=0)
    """Listed, and all that follows from them."""


class Flow(NamedTuple):
    """What comes to one stage."""

    items: Range
    core_s: Range
    """Core-seconds of all of them."""


def flows_to(measured: Measured, targets: Targets) -> tuple[dict[Stage, Flow], dict[str, Range]]:
    """What comes to each stage, and what goes in at the beginning and comes out at the end."""
    ways = []
    if targets.repositories is not None:
        ways.append(_downwards(measured, targets.repositories))
    if targets.trajectories is not None:
        ways.append(_upwards(measured, targets.trajectories))
    if not ways:
        raise NotPlannable("there is nothing to plan for: give --trajectories or --repositories")
    stages: dict[Stage, Flow] = {}
    for stage in STAGES:
        coming = [way[stage] for way in ways if stage in way]
        found = measured.of(stage)
        if not coming or found is None:
            continue
        active = found.active_seconds
        cost = [] if active is None else [active, exactly(found.cores)]
        stages[stage] = Flow(
            larger(times(*one) for one in coming), larger(times(*one, *cost) for one in coming) if cost else exactly(0)
        )
    ends = {
        "repositories": larger(times(*way["listing"]) for way in ways),
        "trajectories": larger(times(*way[_END]) for way in ways),
    }
    return stages, ends


_END: Stage = "publishing"
_Way = Mapping[Stage, Sequence[Range]]
"""The factors whose product is the number of items of a stage."""


def _downwards(measured: Measured, repositories: int) -> _Way:
    """From the repositories on; where nothing is left, later stages need no measurement."""
    way: dict[Stage, Sequence[Range]] = {}
    factors: list[Range] = [exactly(repositories)]
    for stage in STAGES:
        way[stage] = tuple(factors)
        if any(one.value == 0.0 for one in factors):
            continue
        gives = _yield(measured, stage)
        if gives is not None:
            factors.append(gives)
    return way


def _upwards(measured: Measured, trajectories: int) -> _Way:
    """From the trajectories back."""
    gives = {stage: _yield_above_zero(measured, stage) for stage in STAGES}
    way: dict[Stage, Sequence[Range]] = {}
    factors: list[Range] = [exactly(trajectories)]
    for stage in reversed(STAGES):
        one = gives[stage]
        if one is not None:
            factors.append(one_over(one))
        way[stage] = tuple(factors)
    return way


def _yield_above_zero(measured: Measured, stage: Stage) -> Measure | None:
    gives, kind = _yield(measured, stage), STAGES[stage]
    if gives is not None and gives.value == 0.0:
        raise NotPlannable(
            f"{stage}: {gives.n} {kind.items} gave none that count ({kind.gives}), so no number of them is enough; "
            "measure a run in which some do (more items, another model or agent), or plan by --repositories"
        )
    return gives


def _yield(measured: Measured, stage: Stage) -> Measure | None:
    """What goes on of an item; None where all do. Raises NotPlannable where that has to be measured and is not."""
    kind, found = STAGES[stage], measured.of(stage)
    if found is None and kind.optional:
        return None
    if found is None or (kind.gives is not None and found.yielded is None):
        raise NotPlannable(f"{stage} has no measurement: {kind.remedy}, then plan again")
    return found.yielded if kind.gives is not None else None
