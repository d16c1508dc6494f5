"""The plan of a larger run: ranges of what was measured, and the formula, by hand."""

from __future__ import annotations

import math

import pytest

from pipeline.capacity.flows import NotPlannable, Targets
from pipeline.capacity.measures import Measure, Range, exactly, mean_of, share_of, student, times
from pipeline.capacity.planning import CapacityPlan, PlanConfig, Time, Tokens, plan
from pipeline.capacity.stages import STAGES, Measured, Stage, StageMeasure

TERMS = PlanConfig(cores=1, utilisation=0.5, images_kept=0.5, usd_per_machine_hour=1.0, usd_per_gb_month=0.12)
YIELDS: dict[Stage, float] = {
    "fetch": 0.5,
    "score": 0.5,
    "build": 0.25,
    "instances": 10.0,
    "selection": 0.8,
    "sampling": 4.0,
    "rollout": 1.0,
    "verification": 0.1,
    "curation": 0.5,
}
PRICES = Tokens(prompt=1.0, cached=0.5, completion=10.0)


def sure(value: float) -> Measure:
    """A figure without a range."""
    return Measure(value=value, low=value, high=value, n=8, repositories=4)


def stage(name: Stage, *, gives: Measure | None = None, **given: object) -> StageMeasure:
    of = {"seconds": sure(0.0), "active_seconds": sure(0.0), "cores": 1.0} if STAGES[name].timed else {}
    return StageMeasure.model_validate({"stage": name, "basis": "8 items", "yielded": gives} | of | given)


def run(**changed: Measure | None) -> Measured:
    """A run whose images took 36 s on two cores and a GB, and whose attempts took 3.6 of 8.6 s and 1,000 tokens."""
    yields = {name: sure(value) for name, value in YIELDS.items()} | changed
    given: dict[str, dict[str, object]] = {
        "build": {"active_seconds": sure(36.0), "cores": 2.0, "kept_bytes": sure(1e9)},
        "rollout": {
            "seconds": sure(8.64),
            "active_seconds": sure(3.6),
            "prompt_tokens": sure(1_000.0),
            "cached_tokens": sure(500.0),
            "completion_tokens": sure(100.0),
        },
    }
    names = [name for name, kind in STAGES.items() if not kind.optional]
    stages = tuple(stage(name, gives=yields.get(name), **given.get(name, {})) for name in names)
    return Measured(cores=2.0, attempts="bash / m", stages=stages)


def planned(measured: Measured | None = None, *, days: float = 0.25, **targets: int) -> CapacityPlan:
    return plan(measured or run(), Targets.model_validate(targets), Time(days=days), TERMS, PRICES)


def items(found: CapacityPlan) -> dict[str, float]:
    return {one.stage: one.items for one in found.stages}


def test_items_of_each_stage_follow_from_the_trajectories_and_the_yields_after_it() -> None:
    assert items(planned(trajectories=100)) == {
        "listing": 1_000,
        "fetch": 1_000,
        "score": 500,
        "build": 250,
        "instances": 63,  # 62.5 images
        "selection": 625,
        "sampling": 500,
        "rollout": 2_000,
        "verification": 2_000,
        "curation": 200,
    }


def test_items_of_each_stage_follow_from_the_repositories_and_the_yields_before_it() -> None:
    found = planned(repositories=2_000)
    assert items(found) == items(planned(trajectories=200))
    assert (found.repositories, found.trajectories) == (2_000, 200)


def test_two_targets_are_both_met() -> None:
    found = planned(repositories=1_000, trajectories=300)
    assert items(found) == items(planned(trajectories=300))
    assert (found.repositories, found.trajectories) == (3_000, 300)


def test_machines_disk_tokens_and_money_are_those_computed_by_hand() -> None:
    found = planned(trajectories=100)
    # 250 images x 36 s x 2 cores = 5 core-hours, 2,000 attempts x 3.6 s = 2 core-hours.
    assert found.core_hours == 7.0
    # 25,200 core-s / (1 core x 0.5 x 21,600 s) = 2.33.
    assert (found.machines, found.days) == (3, 0.25)
    assert found.disk_gb == 125.0  # 250 images of a GB, half of which are kept
    assert found.tokens == Tokens(prompt=2e6, cached=1e6, completion=2e5)
    assert found.costs.model_dump() == pytest.approx({"machines": 18.0, "disk": 0.125, "tokens": 1.0 + 0.5 + 2.0})
    assert found.cost_usd == pytest.approx(21.625)
    rollout = next(one for one in found.stages if one.stage == "rollout")
    assert rollout.at_a_time == pytest.approx(2_000 * 8.64 / 21_600)


def test_the_days_follow_where_the_machines_are_given() -> None:
    found = plan(run(), Targets(trajectories=100), Time(machines=7), TERMS, PRICES)
    assert (found.machines, found.days) == pytest.approx((7, 25_200 / (0.5 * 86_400 * 7)), rel=1e-5)
    assert found.costs.machines == pytest.approx(14.0)  # as many machine hours as 7 core-hours at half their time


def test_the_formula_is_shown_with_its_numbers() -> None:
    text = "\n".join(planned(trajectories=100).formula)
    assert "25200 core-s / (1 cores x 0.5 x 86,400 s x 0.25 days) = 2.333, so 3" in text
    assert "USD = 3 machines x 0.25 days x 24 x 1 an hour + 125 GB x 0.008333 months x 0.12" in text


def test_a_cost_without_a_price_is_unknown_and_the_price_is_asked_for() -> None:
    found = plan(run(), Targets(trajectories=1), Time(days=1), PlanConfig(cores=1))
    assert (found.cost_usd, found.costs.tokens) == (None, None)
    assert "usd_per_machine_hour in [plan]" in found.notes[-1] and "[model]" in found.notes[-1]


def test_the_range_of_a_yield_goes_through_to_machines_disk_and_money() -> None:
    passed = Measure(value=0.1, low=0.05, high=0.2, n=8, repositories=4)
    found = planned(run(verification=passed), trajectories=100)
    (build,) = (one for one in found.stages if one.stage == "build")
    assert (build.items, build.items_interval) == (250, (125, 500))
    assert found.core_hours_interval == (3.5, 14.0)
    assert (found.machines_interval, found.disk_gb_interval) == ((2, 5), (62.5, 250.0))
    assert found.cost_usd_interval == pytest.approx((12 + 0.0625 + 1.75, 30 + 0.25 + 7.0))


def test_a_stage_without_a_measurement_is_named_with_the_way_to_one() -> None:
    measured = run()
    without = measured.model_copy(update={"stages": tuple(one for one in measured.stages if one.stage != "build")})
    with pytest.raises(NotPlannable, match="build has no measurement: run `touchstone run`"):
        planned(without, trajectories=1)
    with pytest.raises(NotPlannable, match="curation has no measurement: run until an attempt passes"):
        planned(run(curation=None), repositories=1)


def test_where_nothing_passed_trajectories_cannot_be_planned() -> None:
    nothing = Measure(value=0.0, low=0.0, high=0.1, n=128, repositories=30)
    with pytest.raises(NotPlannable, match=r"verification: 128 attempts gave none .* or plan by --repositories"):
        planned(run(verification=nothing), trajectories=1)


def test_where_nothing_passed_repositories_are_planned_up_to_there() -> None:
    nothing = Measure(value=0.0, low=0.0, high=0.1, n=128, repositories=30)
    found = planned(run(verification=nothing, curation=None), repositories=2_000)
    assert items(found)["verification"] == 4_000
    assert (found.trajectories, *found.trajectories_interval) == pytest.approx((0, 0, 400))


def test_a_plan_for_nothing_is_refused() -> None:
    with pytest.raises(NotPlannable, match="--trajectories or --repositories"):
        planned()


@pytest.mark.parametrize(
    "wrong",
    [
        {"usd_per_machine_hour": -1},
        {"usd_per_gb_month": "nan"},
        {"cores": 0},
        {"utilisation": 1.1},
        {"images_kept": -0.1},
    ],
)
def test_terms_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PlanConfig.model_validate(wrong)


def test_a_share_has_the_wilson_interval_of_its_items() -> None:
    found = share_of([(1.0, 1.0)] * 5 + [(0.0, 1.0)] * 5)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.236593, 0.763407), rel=1e-5)
    assert (found.n, found.repositories) == (10, 10)


def test_items_of_one_repository_that_share_a_fate_count_once() -> None:
    alike, mixed = share_of([(10.0, 10.0), (0.0, 10.0)]), share_of([(5.0, 10.0), (5.0, 10.0)])
    alone = share_of([(5.0, 10.0)])
    assert (alike.low, alike.high) == pytest.approx((0.0945, 0.9055), abs=1e-3)
    assert (mixed.low, mixed.high) == pytest.approx((0.2993, 0.7007), abs=1e-3)
    assert (alone.low, alone.high) == pytest.approx((0.0546, 0.9454), abs=1e-3)


def test_what_never_failed_may_fail_and_what_never_passed_may_pass() -> None:
    always, never = share_of([(4.0, 4.0)] * 10), share_of([(0.0, 4.0)] * 10)
    assert (always.low, always.high) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert (never.low, never.high) == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_a_mean_is_as_sure_as_repositories_agree() -> None:
    assert mean_of([(4.0, 2.0), (2.0, 1.0)]).model_dump(include={"value", "low", "high"}) == sure(2.0).model_dump(
        include={"value", "low", "high"}
    )
    found = mean_of([(1.0, 1.0), (3.0, 1.0)])
    # The standard error is 1, half of the mean; Student's factor for two is 12.706.
    assert (found.low, found.high) == pytest.approx((2 / math.exp(6.3531), 2 * math.exp(6.3531)), rel=1e-3)
    single = mean_of([(6.0, 3.0)])
    assert (single.value, single.low, single.high) == pytest.approx((2.0, 0.2, 20.0))


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (100, 1.98397)]
)
def test_students_factor_is_that_of_the_tables(freedom: int, expected: float) -> None:
    assert student(freedom) == pytest.approx(expected, rel=4e-3)


def test_ranges_of_a_product_add_up_on_the_scale_of_logarithms() -> None:
    half_or_twice = Range(value=1.0, low=0.5, high=2.0)
    found = times(half_or_twice, half_or_twice, exactly(10))
    assert (found.low, found.high) == pytest.approx((10 / 2 ** math.sqrt(2), 10 * 2 ** math.sqrt(2)))
