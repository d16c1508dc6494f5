"""The graph as Dagster sees it."""

from __future__ import annotations

import datetime

import dagster as dg
import pytest

from assets.datasets import NIGHTLY_DAY
from assets.definitions import defs
from assets.partitions import STREAMS, day_by_stream, range_tags, split, streams_named
from assets.schedules import nightly
from pipeline.types import DOMAINS, LANGUAGES

EDGES = {
    "repositories": set(),
    "scores": {"repositories"},
    "image_builds": {"scores"},
    "score_model": {"image_builds"},
    "instances": {"image_builds"},
    "ratings": {"instances"},
    "trajectories": {"instances"},
    "verifications": {"trajectories"},
    "judgements": {"verifications"},
    "curations": {"verifications"},
    "terminal_snapshot": {"curations"},
}


def specs() -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_the_graph_is_the_pipeline() -> None:
    edges = {name: {dep.asset_key.to_user_string() for dep in spec.deps} for name, spec in specs().items()}
    assert edges == EDGES


def test_every_stage_is_partitioned_alike_and_what_takes_all_days_together_is_not() -> None:
    partitioned = {name for name, spec in specs().items() if spec.partitions_def == day_by_stream}
    assert partitioned == set(EDGES) - {"score_model", "curations", "terminal_snapshot"}


def test_every_asset_has_a_group_kinds_and_a_description() -> None:
    for name, spec in specs().items():
        assert spec.group_name != "default" and spec.kinds and spec.description, name


def test_every_asset_has_a_blocking_check() -> None:
    checked = {key.asset_key.to_user_string() for key in defs.resolve_asset_graph().asset_check_keys}
    assert checked == set(EDGES)


def test_streams_are_the_languages_and_the_domains() -> None:
    expected = (*LANGUAGES, *DOMAINS)
    assert expected == STREAMS
    assert split(["2026-11-02|go", "2026-11-02|c", "2026-11-03|go"]) == {
        "2026-11-02": ["go", "c"],
        "2026-11-03": ["go"],
    }


@pytest.mark.parametrize(
    ("name", "streams"), [("all", STREAMS), ("languages", LANGUAGES), ("domains", DOMAINS), ("sql", ("sql",))]
)
def test_a_name_selects_exactly_the_partitions_of_its_streams(name: str, streams: tuple[str, ...]) -> None:
    first, last = range_tags("2026-11-02", streams_named(name)).values()
    day = [f"2026-11-02|{stream}" for stream in STREAMS]
    assert day == [key for key in day_by_stream.get_partition_keys() if key.startswith("2026-11-02|")]
    assert day[day.index(first) : day.index(last) + 1] == [f"2026-11-02|{stream}" for stream in streams]


def test_a_run_can_end_with_the_instances() -> None:
    job = defs.resolve_job_def("instances_only")
    assert {node.name for node in job.nodes} == {"repositories", "scores", "image_builds", "instances", "ratings"}


def test_the_nightly_schedule_asks_for_every_stream_of_its_day() -> None:
    context = dg.build_schedule_context(scheduled_execution_time=datetime.datetime(2026, 11, 5, 2, tzinfo=datetime.UTC))
    request = nightly(context)
    assert isinstance(request, dg.RunRequest)
    assert request.tags == range_tags("2026-11-05") | {NIGHTLY_DAY: "2026-11-05"}
    first, last, _ = request.tags.values()
    assert day_by_stream.get_partition_keys()[0].startswith("2026-11-01|")
    assert (first, last) == (f"2026-11-05|{STREAMS[0]}", f"2026-11-05|{STREAMS[-1]}")


def test_dagster_can_load_the_code_location() -> None:
    """Resolving single jobs and assets does not look for names that two of them share; the web server does."""
    dg.Definitions.validate_loadable(defs)
