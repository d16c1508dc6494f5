"""What an asset does when its body fails, and what its checks stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.checks import UNIQUE, YIELD, refusals
from assets.columns_shown import columns_of
from assets.operated import OWNER, RETRY, operated
from assets.resources import WorkshopResource, open_workshop
from pipeline.errors import ConfigurationError, InfrastructureFailure
from sandbox.errors import ImageMissing, SandboxUnavailable

Body = Callable[[], dg.MaterializeResult]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkshopResource]:
    for variable in ("TOUCHSTONE_DATA", "TOUCHSTONE_CONFIG"):
        monkeypatch.setenv(variable, "")
    settings = tmp_path / "touchstone.toml"
    settings.write_text("")
    open_workshop.cache_clear()
    yield WorkshopResource(config=str(settings), data=str(tmp_path / "data"))
    open_workshop.cache_clear()


def asset_of(body: Body, *, name: str = "one", deps: list[dg.AssetsDefinition] | None = None) -> dg.AssetsDefinition:
    def step(workshop: WorkshopResource) -> dg.MaterializeResult:
        """What the step does."""
        return body()

    step.__name__ = name
    operate = operated(
        group="g",
        kinds={"python"},
        columns=columns_of("scores"),
        promises=[UNIQUE, YIELD],
        deps=deps or [],
        partitioned=False,
    )
    return operate(step)


def fine(*faults: str, unusual: tuple[str, ...] = ()) -> Body:
    return lambda: dg.MaterializeResult(check_results=[UNIQUE.result(faults), YIELD.result(unusual)])


def run(workshop: WorkshopResource, *assets: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
    return dg.materialize(list(assets), resources={"workshop": workshop}, raise_on_error=False)


class Failing:
    """A body that raises as often as it is told, then is fine."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.calls = error, times, 0

    def __call__(self) -> dg.MaterializeResult:
        self.calls += 1
        if self.calls <= self.times:
            raise self.error
        return fine()()


@pytest.mark.parametrize("error", [SandboxUnavailable("no engine"), InfrastructureFailure("no network")])
def test_what_may_be_over_in_a_moment_is_tried_again(workshop: WorkshopResource, error: Exception) -> None:
    body = Failing(error, 1)
    assert run(workshop, asset_of(body)).success
    assert body.calls == 2


@pytest.mark.parametrize(
    "error", [ConfigurationError("set [model]"), ImageMissing("gone"), ValueError("a mistake of ours")]
)
def test_anything_else_fails_the_asset_at_once_and_says_why(workshop: WorkshopResource, error: Exception) -> None:
    body = Failing(error, 1)
    result = run(workshop, asset_of(body))
    assert not result.success and body.calls == 1
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    told = failure.step_failure_data.error
    assert told is not None and str(error) in told.message
    assert told.cause is not None and type(error).__name__ in told.cause.message


def test_a_fault_that_blocks_stops_what_comes_after_and_one_that_warns_does_not(workshop: WorkshopResource) -> None:
    for body, goes_on in ((fine("r is there 2 times"), False), (fine(unusual=("1 of 30",)), True), (fine(), True)):
        after = Failing(ValueError(), 0)
        first = asset_of(body, name="first")
        result = run(workshop, first, asset_of(after, name="second", deps=[first]))
        assert (after.calls == 1) is goes_on
        assert result.success is goes_on
        assert result.asset_materializations_for_node("first")
        assert refusals(result) == ([] if goes_on else ["first: ids_are_unique: r is there 2 times"])


def test_an_asset_has_the_facts_that_all_have_and_those_of_its_function(workshop: WorkshopResource) -> None:
    (spec,) = asset_of(fine()).specs
    assert (spec.owners, spec.description, spec.key.to_user_string()) == ([OWNER], "What the step does.", "one")
    assert asset_of(fine()).op.retry_policy == RETRY
    columns = spec.metadata["dagster/column_schema"]
    assert isinstance(columns, dg.TableSchema)
    score = next(column for column in columns.columns if column.name == "score")
    assert (score.type, score.constraints.nullable) == ("double", True)
    assert score.description == "How likely the repository is to give a working image, 0 to 1"
