"""The graph as Dagster sees it."""

from __future__ import annotations

import datetime

import dagster as dg
import pytest
import yaml

from assets.datasets import NIGHTLY_DAY
from assets.definitions import defs
from assets.operated import EVERY_NIGHT, OWNER, RETRY
from assets.partitions import STREAMS, day_by_stream, range_tags, split, streams_named
from assets.resources import PROJECT
from assets.run_tags import run_tags
from assets.schedules import nightly
from pipeline.column_meanings import meaning
from pipeline.schemas import TABLES, TERMINAL
from pipeline.types import DOMAINS, LANGUAGES

STAGE = "columns_fit_the_schema every_item_has_a_row ids_are_unique rows_come_from_upstream yield_is_usual"
GRAPH = {
    # name: (upstream, group, kinds, pool, checks besides those of every stage)
    "repositories": ("", "repositories", "deltalake docker", "github_api", ""),
    "scores": ("repositories", "repositories", "deltalake python", "model_server", ""),
    "image_builds": ("scores", "images", "deltalake docker", "engine", ""),
    "instances": (
        "image_builds",
        "instances",
        "deltalake docker pytest",
        "engine",
        "admitted_by_every_gate no_instruction_tells_the_solution",
    ),
    "ratings": ("instances", "instances", "deltalake python", "model_server", ""),
    "trajectories": ("instances", "trajectories", "deltalake docker", "engine", ""),
    "verifications": (
        "trajectories",
        "trajectories",
        "deltalake docker pytest",
        "engine",
        "doing_nothing_never_passes passed_means_all_tests_passed",
    ),
    "judgements": ("verifications", "trajectories", "deltalake python", "model_server", ""),
    "curations": ("verifications", "datasets", "deltalake python", "", ""),
}
OTHERS = {
    # name: (upstream, group, kinds, pool, all checks)
    "score_model": ("image_builds", "models", "python scikitlearn", "", "some_rows_are_held_out"),
    "sft_model": (
        "terminal_snapshot",
        "models",
        "python pytorch",
        "gpu",
        "loss_fell model_reads_back only_train_rows_are_learned",
    ),
    "terminal_snapshot": (
        "curations",
        "datasets",
        "parquet",
        "",
        "files_match_manifest only_proven_rows_are_published version_reads_back",
    ),
}
ROWS = "columns_fit_the_schema every_item_has_a_row ids_are_unique"
VERSION = "files_match_manifest version_reads_back"
BY_HAND = {
    # Games, and what is made of published versions: jobs of their own, with the same facts as above.
    "game_tasks": ("", "environments", "deltalake python", "", ROWS),
    "game_trajectories": ("game_tasks", "environments", "deltalake python", "", ROWS),
    "game_verifications": ("game_trajectories", "environments", "deltalake python", "", ROWS),
    "games_snapshot": ("game_verifications", "environments", "parquet", "", VERSION),
    "annotations": ("games_snapshot terminal_snapshot", "hierarchy", "deltalake", "", ROWS),
    "system1": ("annotations", "hierarchy", "parquet", "", VERSION),
    "system2": ("annotations", "hierarchy", "parquet", "", VERSION),
    "step_high": ("annotations", "hierarchy", "parquet", "", VERSION),
    "step_low": ("annotations", "hierarchy", "parquet", "", VERSION),
    "step_progress": ("annotations", "hierarchy", "parquet", "", VERSION),
    "hierarchical_scienceworld": ("annotations", "hierarchy", "parquet", "", VERSION),
    "hierarchical_alfworld": ("annotations", "hierarchy", "parquet", "", VERSION),
    "hierarchical_textcraft": ("annotations", "hierarchy", "parquet", "", VERSION),
}
NAMES = sorted({**GRAPH, **OTHERS, **BY_HAND})


def specs() -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def definition(name: str) -> dg.AssetsDefinition:
    return defs.resolve_asset_graph().get(dg.AssetKey(name)).assets_def


def test_the_graph_is_this_one() -> None:
    found = {}
    for key in defs.resolve_asset_graph().get_all_asset_keys():
        node = defs.resolve_asset_graph().get(key)
        found[key.to_user_string()] = (
            " ".join(sorted(parent.to_user_string() for parent in node.parent_keys)),
            node.group_name,
            " ".join(sorted(node.kinds)),
            " ".join(sorted(node.pools)),
            sorted(check.name for check in node.check_keys),
        )
    stages = {name: (*facts[:4], sorted(f"{STAGE} {facts[4]}".split())) for name, facts in GRAPH.items()}
    others = {name: (*facts[:4], facts[4].split()) for name, facts in {**OTHERS, **BY_HAND}.items()}
    assert found == stages | others


def test_all_definitions_can_be_loaded() -> None:
    dg.Definitions.validate_loadable(defs)


def test_a_code_server_can_serve_the_graph() -> None:
    defs.get_repository_def().load_all_definitions()


def test_every_stage_is_partitioned_alike_and_what_takes_all_days_together_is_not() -> None:
    partitioned = {name for name, spec in specs().items() if spec.partitions_def == day_by_stream}
    assert partitioned == set(GRAPH) - {"curations"}
    for name in partitioned:
        policy = definition(name).backfill_policy
        assert policy is not None and policy.policy_type is dg.BackfillPolicy.single_run().policy_type, name


@pytest.mark.parametrize("name", NAMES)
def test_an_asset_has_an_owner_a_description_columns_retries_and_freshness_where_it_is_made_every_night(
    name: str,
) -> None:
    spec = specs()[name]
    assert spec.owners == [OWNER] and spec.description
    assert definition(name).op.retry_policy == RETRY
    assert spec.freshness_policy == (None if name in {"score_model", "sft_model", *BY_HAND} else EVERY_NIGHT)
    columns = spec.metadata["dagster/column_schema"]
    assert isinstance(columns, dg.TableSchema) and columns.columns


@pytest.mark.parametrize("name", sorted(GRAPH))
def test_the_columns_shown_are_those_of_the_table_and_each_is_explained(name: str) -> None:
    shown = specs()[name].metadata["dagster/column_schema"]
    assert [(column.name, column.type) for column in shown.columns] == [
        (field.name, str(field.type)) for field in TABLES[name].arrow
    ]
    assert [column.name for column in shown.columns if not column.description] == []


def test_every_column_of_every_table_is_explained() -> None:
    schemas = [schema for name, schema in TABLES.items() if name in {*GRAPH, "listings", "contexts", "annotations"}]
    unexplained = [
        (one.name, name) for one in (*schemas, TERMINAL) for name in one.arrow.names if not meaning(one.name, name)
    ]
    assert unexplained == []


def test_the_main_job_leaves_out_what_has_jobs_of_its_own() -> None:
    jobs = {name: defs.resolve_job_def(name) for name in ("main", "environments", "hierarchy")}
    of = {name: {key.to_user_string() for key in job.asset_layer.executable_asset_keys} for name, job in jobs.items()}
    assert of["main"] == {*GRAPH, "terminal_snapshot"}
    assert of["environments"] | of["hierarchy"] == set(BY_HAND) and not of["environments"] & of["hierarchy"]
    assert of["environments"] == {name for name, facts in BY_HAND.items() if facts[1] == "environments"}


def test_only_a_figure_out_of_the_ordinary_lets_the_graph_go_on() -> None:
    graph = defs.resolve_asset_graph()
    lenient = {key.name for key in graph.asset_check_keys if not graph.get(key).blocking}
    assert lenient == {"yield_is_usual", "loss_fell"}


def test_every_pool_has_a_limit_that_counts_runs() -> None:
    settings = yaml.safe_load((PROJECT / "infra" / "dagster.yaml").read_text())
    # Steps of the in-process executor would wait in a busy loop, and a killed run would keep its turn.
    assert settings["concurrency"]["pools"] == {"granularity": "run", "default_limit": 1}


def test_a_run_is_found_by_its_day_its_streams_its_code_and_who_attempts_tasks() -> None:
    tags = run_tags("2026-11-02", "languages", agents=["bash", "noop"], model="m")
    assert tags.pop("touchstone/commit")
    assert tags == {
        "touchstone/day": "2026-11-02",
        "touchstone/streams": "languages",
        "touchstone/agents": "bash, noop",
        "touchstone/model": "m",
    }
    assert set(run_tags("2026-11-02", "all")) == {"touchstone/day", "touchstone/streams", "touchstone/commit"}


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
    assert request.run_config == {"resources": {"retry": {"config": {"retry": "infrastructure", "only": []}}}}
    first, last, _ = request.tags.values()
    assert day_by_stream.get_partition_keys()[0].startswith("2026-11-01|")
    assert (first, last) == (f"2026-11-05|{STREAMS[0]}", f"2026-11-05|{STREAMS[-1]}")


def test_dagster_can_load_the_code_location() -> None:
    """Resolving single jobs and assets does not look for names that two of them share; the web server does."""
    dg.Definitions.validate_loadable(defs)
