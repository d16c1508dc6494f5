"""The capacity plan: from what was measured to machines, days, disk and money, with the formula and its numbers.

A range goes through every step: shares and costs that were measured on little make a plan that says little.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from pydantic import Field

from pipeline.capacity.flows import Flow, Targets, flows_to
from pipeline.capacity.measures import Range, exactly, significant, times, total
from pipeline.capacity.stages import STAGES, Measured, Stage, StageMeasure
from pipeline.llm.openai_server import OpenAIServerConfig
from pipeline.types import Record

DAY_S = 86_400
MONTH_DAYS = 30
GB = 1e9
MILLION = 1e6
Interval = tuple[float, float]


class PlanConfig(Record):
    """The machines of a larger run, and what they cost."""

    cores: int = Field(default_factory=lambda: os.cpu_count() or 1, gt=0, le=10_000)
    """Of one machine; those of this one when left out."""
    measured_cores: float | None = Field(default=None, gt=0, le=10_000)
    """Of the machine that ran what was measured; those of this one when left out."""
    utilisation: float = Field(default=0.8, gt=0, le=1)
    """Share of the cores' time that is worked in."""
    images_kept: float = Field(default=1.0, ge=0, le=1)
    """Share of the images that is on the disks at the same time; the others were removed, or are in a registry."""
    usd_per_machine_hour: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    usd_per_gb_month: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Time(Record):
    """One of both is given, the other one follows."""

    days: float | None = Field(default=None, gt=0)
    machines: int | None = Field(default=None, gt=0)


class Tokens(Record):
    """Of one item, or of all."""

    prompt: float
    cached: float
    """Of the prompt tokens."""
    completion: float


def token_prices(model: OpenAIServerConfig) -> Tokens | None:
    """USD of a million tokens of this model; None where the settings do not say."""
    prompt, completion = model.usd_per_million_prompt_tokens, model.usd_per_million_completion_tokens
    if prompt is None or completion is None:
        return None
    cached = prompt if model.usd_per_million_cached_tokens is None else model.usd_per_million_cached_tokens
    return Tokens(prompt=prompt, cached=cached, completion=completion)


class StagePlan(Record):
    """What one stage is going to do."""

    stage: Stage
    unit: str
    """What an item is."""
    items: float
    items_interval: Interval
    yielded: float | None = Field(serialization_alias="yield")
    """What goes on of each item; None where every item does."""
    yield_interval: Interval | None
    gives: str | None
    """What the yield counts."""
    seconds_per_item: float | None
    cpu_seconds_per_item: float | None
    """At most."""
    bytes_per_item: float
    tokens_per_item: Tokens | None
    core_hours: float
    """Of all items, at most."""
    core_hours_interval: Interval
    at_a_time: float
    """Items in progress on all machines together, on the average."""
    basis: str


class Cost(Record):
    """In USD; None where a price is missing."""

    machines: float | None
    disk: float | None
    tokens: float | None


class CapacityPlan(Record):
    """What the targets take. Each interval holds in 95 of 100 cases, as far as the run was like those to come."""

    targets: Targets
    repositories: float
    repositories_interval: Interval
    trajectories: float
    trajectories_interval: Interval
    stages: tuple[StagePlan, ...]
    core_hours: float
    core_hours_interval: Interval
    machines: int
    machines_interval: Interval
    days: float
    days_interval: Interval
    disk_gb: float
    disk_gb_interval: Interval
    tokens: Tokens
    cost_usd: float | None
    cost_usd_interval: Interval | None
    costs: Cost
    formula: tuple[str, ...]
    notes: tuple[str, ...]
    """What to bear in mind."""
    terms: PlanConfig
    usd_per_million_tokens: Tokens | None
    measured: Measured
    """What all of it was computed from."""


def plan(
    measured: Measured, targets: Targets, time: Time, config: PlanConfig, prices: Tokens | None = None
) -> CapacityPlan:
    """Raises NotPlannable. `prices` are USD of a million tokens; None where there are none."""
    flows, ends = flows_to(measured, targets)
    core_s = total(flow.core_s for flow in flows.values())
    per_day = config.cores * config.utilisation * DAY_S
    if time.machines is None:
        days = exactly(time.days or 1.0)
        machines = times(core_s, exactly(1 / (per_day * days.value)))
        count = Range(**{end: max(1, math.ceil(figure)) for end, figure in machines.model_dump().items()})
    else:
        count = exactly(time.machines)
        days = times(core_s, exactly(1 / (per_day * time.machines)))
    disk = total(_disk(flow.items, measured.of(stage), config) for stage, flow in flows.items())
    tokens = _tokens(flows, measured)
    costs = _costs(times(count, days), days, disk, tokens, config, prices)
    known = [one for one in costs.values() if one is not None]
    cost = total(known) if len(known) == len(costs) else None
    made = CapacityPlan(
        targets=targets,
        repositories=_up(ends["repositories"].value),
        repositories_interval=_ends(ends["repositories"]),
        trajectories=_up(ends["trajectories"].value),
        trajectories_interval=_ends(ends["trajectories"]),
        stages=tuple(_stage(stage, flow, measured.of(stage), days.value, config) for stage, flow in flows.items()),
        core_hours=significant(core_s.value / 3600),
        core_hours_interval=_ends(core_s, 3600),
        machines=round(count.value),
        machines_interval=(count.low, count.high),
        days=significant(days.value),
        days_interval=_ends(days),
        disk_gb=significant(disk.value / GB),
        disk_gb_interval=_ends(disk, GB),
        tokens=Tokens(**{name: significant(one.value) for name, one in tokens.items()}),
        cost_usd=None if cost is None else significant(cost.value),
        cost_usd_interval=None if cost is None else _ends(cost),
        costs=Cost(**{name: None if one is None else significant(one.value) for name, one in costs.items()}),
        formula=(),
        notes=_notes(measured, flows, costs),
        terms=config,
        usd_per_million_tokens=prices,
        measured=measured,
    )
    return made.model_copy(update={"formula": _formula(made, config, per_day, given_machines=time.machines)})


def _kept(found: StageMeasure, config: PlanConfig) -> Range:
    """Bytes of one item besides its rows."""
    share = config.images_kept if found.stage == "build" else 1.0
    return times(found.kept_bytes or exactly(0), exactly(share))


def _disk(items: Range, found: StageMeasure | None, config: PlanConfig) -> Range:
    assert found is not None  # a stage without one has no flow
    return total([times(items, exactly(found.table_bytes)), times(items, _kept(found, config))])


def _tokens(flows: Mapping[Stage, Flow], measured: Measured) -> dict[str, Range]:
    """Of all questions to models, by kind."""
    sums: dict[str, list[Range]] = {"prompt": [], "cached": [], "completion": []}
    for stage, flow in flows.items():
        found = measured.of(stage)
        if found is not None and found.prompt_tokens and found.cached_tokens and found.completion_tokens:
            sums["prompt"].append(times(flow.items, found.prompt_tokens))
            sums["cached"].append(times(flow.items, found.cached_tokens))
            sums["completion"].append(times(flow.items, found.completion_tokens))
    return {name: total(one) for name, one in sums.items()}


def _costs(
    machine_days: Range,
    days: Range,
    disk: Range,
    tokens: Mapping[str, Range],
    config: PlanConfig,
    prices: Tokens | None,
) -> dict[str, Range | None]:
    """What is paid for what; None without a price. Nothing is paid for tokens that are not needed."""
    hourly, monthly = config.usd_per_machine_hour, config.usd_per_gb_month
    return {
        "machines": None if hourly is None else times(machine_days, exactly(24 * hourly)),
        "disk": None if monthly is None else times(disk, days, exactly(monthly / (GB * MONTH_DAYS))),
        "tokens": _of_tokens(tokens, prices) if tokens["prompt"].value else exactly(0),
    }


def _of_tokens(tokens: Mapping[str, Range], prices: Tokens | None) -> Range | None:
    if prices is None:
        return None
    ends = {
        end: (
            max(0.0, getattr(tokens["prompt"], end) - getattr(tokens["cached"], end)) * prices.prompt
            + getattr(tokens["cached"], end) * prices.cached
            + getattr(tokens["completion"], end) * prices.completion
        )
        / MILLION
        for end in ("value", "low", "high")
    }
    return Range(value=ends["value"], low=min(ends.values()), high=max(ends.values()))


def _stage(stage: Stage, flow: Flow, found: StageMeasure | None, days: float, config: PlanConfig) -> StagePlan:
    assert found is not None
    seconds, active, gives = found.seconds, found.active_seconds, found.yielded
    asked = found.prompt_tokens, found.cached_tokens, found.completion_tokens
    prompt, cached, written = (one.value if one else 0.0 for one in asked)
    return StagePlan(
        stage=stage,
        unit=STAGES[stage].items,
        items=_up(flow.items.value),
        items_interval=_ends(flow.items),
        yielded=gives.value if gives else None,
        yield_interval=(gives.low, gives.high) if gives else None,
        gives=STAGES[stage].gives,
        seconds_per_item=seconds.value if seconds else None,
        cpu_seconds_per_item=significant(active.value * found.cores) if active else None,
        bytes_per_item=significant(found.table_bytes + _kept(found, config).value),
        tokens_per_item=Tokens(prompt=prompt, cached=cached, completion=written) if found.prompt_tokens else None,
        core_hours=significant(flow.core_s.value / 3600),
        core_hours_interval=_ends(flow.core_s, 3600),
        at_a_time=significant(flow.items.value * seconds.value / (days * DAY_S)) if seconds and days else 0.0,
        basis=found.basis,
    )


def _up(items: float) -> float:
    """Whole items; what floating point adds to a whole number is none."""
    return float(math.ceil(significant(items)))


def _ends(figure: Range, unit: float = 1.0) -> Interval:
    return significant(figure.low / unit), significant(figure.high / unit)


def _notes(measured: Measured, flows: Mapping[Stage, Flow], costs: Mapping[str, Range | None]) -> tuple[str, ...]:
    left_out = [stage for stage, kind in STAGES.items() if kind.optional and measured.of(stage) is None]
    prices = {
        "machines": "usd_per_machine_hour in [plan]",
        "disk": "usd_per_gb_month in [plan]",
        "tokens": "usd_per_million_prompt_tokens and usd_per_million_completion_tokens of the server in [model]",
    }
    notes = [
        f"Attempts of {measured.attempts}, on a machine with {measured.cores:g} cores.",
        "CPU time is not recorded: it is at most the seconds of an item, without those of waiting for a model, times "
        "the cores that it could have had.",
        "A larger run finds more near copies, and its repositories may be unlike those of the recorded one.",
    ]
    if "build" in flows:
        notes.append("Layers that images share count for each image: the disk needs less.")
    if left_out:
        notes.append(f"Not in the recorded run, nor in the plan: {', '.join(left_out)}.")
    missing = [f"{name} ({prices[name]})" for name, one in costs.items() if one is None]
    if missing:
        notes.append(f"No cost without the price of {', of '.join(missing)}.")
    return tuple(notes)


def _formula(made: CapacityPlan, config: PlanConfig, per_day: float, *, given_machines: int | None) -> tuple[str, ...]:
    """Each step in words, the last ones with their numbers."""
    core_s = made.core_hours * 3600
    cores = f"{config.cores} cores x {config.utilisation:g} x 86,400 s"
    if given_machines is None:
        follows = (
            f"machines = {core_s:.6g} core-s / ({cores} x {made.days:g} days) = {core_s / per_day / made.days:.4g}"
        )
        follows += f", so {made.machines}"
    else:
        follows = f"days = {core_s:.6g} core-s / ({cores} x {given_machines} machines) = {made.days:.4g}"
    hour, month = _price(config.usd_per_machine_hour), _price(config.usd_per_gb_month)
    return (
        "items of a stage = repositories x yields of the stages before it, or trajectories / yields of it and of the "
        "stages after it; the larger one for both",
        "core-s of a stage = items x active seconds of an item x cores that it had",
        f"{follows}",
        f"disk = sum of items x bytes of an item = {made.disk_gb:.4g} GB, images x {config.images_kept:g}",
        f"USD = {made.machines} machines x {made.days:.4g} days x 24 x {hour} an hour + "
        f"{made.disk_gb:.4g} GB x {made.days / MONTH_DAYS:.4g} months x {month} + tokens x prices",
    )


def _price(usd: float | None) -> str:
    return "price" if usd is None else f"{usd:g}"
