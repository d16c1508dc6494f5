"""Games: their tasks, the attempts of experts and others at them, the verdicts, and the published versions."""

from collections import Counter

import dagster as dg

from assets.checks import COMPLETE, MANIFEST, READABLE, SCHEMA, UNIQUE, completeness, table_results
from assets.columns_shown import columns_of, columns_shown
from assets.games import admitted, games_store, list_chosen, play
from assets.metadata import preview_table
from assets.operated import operated
from assets.plots import rows_plot
from assets.resources import RetryResource, Workshop, WorkshopResource, code_commit
from pipeline.batch import StageReport
from pipeline.published_checks import unreadable
from pipeline.schemas import TERMINAL, to_rows
from pipeline.snapshots import check, versions
from pipeline.stages.game_verdicts import judge_games
from pipeline.stages.publishing_games import GamesPublication, publish_games
from pipeline.token_counts import TokenCounter

_STAGE = (COMPLETE, SCHEMA, UNIQUE)


def _results(shop: Workshop, table: str, report: StageReport) -> list[dg.AssetCheckResult]:
    found = {one.check_name: one for one in table_results(games_store(shop), table)}
    return [completeness(report), found[SCHEMA.name], found[UNIQUE.name]]


def _metadata(shop: Workshop, table: str, report: StageReport, shown: list[str]) -> dict[str, dg.MetadataValue]:
    rows = to_rows(games_store(shop).current(table, shown).slice(0, 10))
    return {
        "dagster/row_count": dg.MetadataValue.int(report.total),
        "done": dg.MetadataValue.int(report.done),
        "failed": dg.MetadataValue.json(report.failed),
        "settled_before": dg.MetadataValue.int(report.skipped),
        "seconds": dg.MetadataValue.float(round(report.seconds, 2)),
        "preview": preview_table(rows, shown),
    }


@operated(
    group="environments",
    kinds={"python", "deltalake"},
    columns=columns_of("instances"),
    promises=_STAGE,
    partitioned=False,
    freshness=None,
)
def game_tasks(workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """Tasks of the games of [environments] with their gold paths, each of which was played to the full score."""
    shop = workshop.open()
    report = list_chosen(shop, retry.options(shop))
    shown = ["generator", "family", "difficulty", "instance_id", "reason"]
    return dg.MaterializeResult(
        metadata=_metadata(shop, "instances", report, shown), check_results=_results(shop, "instances", report)
    )


@operated(
    group="environments",
    kinds={"python", "deltalake"},
    columns=columns_of("trajectories"),
    promises=_STAGE,
    deps=[game_tasks],
    partitioned=False,
    freshness=None,
)
def game_trajectories(workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """Attempts at the tasks of games: the expert's, those that stray, and those of a model where one is named."""
    shop = workshop.open()
    report = play(shop, shop.settings.environments, shop.model(), retry.options(shop))
    shown = ["trajectory_id", "agent", "backend", "n_turns", "stop_reason", "reason"]
    return dg.MaterializeResult(
        metadata=_metadata(shop, "trajectories", report, shown), check_results=_results(shop, "trajectories", report)
    )


@operated(
    group="environments",
    kinds={"python", "deltalake"},
    columns=columns_of("verifications"),
    promises=_STAGE,
    deps=[game_trajectories],
    partitioned=False,
    freshness=None,
)
def game_verifications(workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """The verdict on each attempt in a game: passed with the full score of the game itself, and with nothing less."""
    shop = workshop.open()
    store = games_store(shop)
    tasks = [task for each in admitted(store, shop.settings.environments.games).values() for task in each]
    report = judge_games(store, tasks, retry.options(shop))
    outcomes = Counter(store.current("verifications", ["outcome"]).column("outcome").to_pylist())
    shown = ["trajectory_id", "outcome", "reason"]
    return dg.MaterializeResult(
        metadata=_metadata(shop, "verifications", report, shown) | {"outcomes": dg.MetadataValue.json(dict(outcomes))},
        check_results=_results(shop, "verifications", report),
    )


@operated(
    group="environments",
    kinds={"parquet"},
    columns=columns_shown(TERMINAL),
    promises=[MANIFEST, READABLE],
    deps=[game_verifications],
    partitioned=False,
    freshness=None,
)
def games_snapshot(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
    """Judged attempts in games as an immutable version; nothing is written when it is that of the latest one."""
    shop = workshop.open()
    config, tokenizer = shop.settings.environments, shop.settings.dataset.tokenizer
    tokens = TokenCounter(shop.folder / tokenizer) if tokenizer is not None else None
    publication = GamesPublication(config.snapshot, shop.settings.dataset, config.games, tokens)
    version = publish_games(
        games_store(shop), shop.data, publication, code_commit=code_commit(), run_id=context.run.run_id
    )
    if version is None:
        context.log.warning("no attempt in a game has a verdict yet: there is nothing to publish")
        return dg.MaterializeResult(
            metadata={"dagster/row_count": dg.MetadataValue.int(0)},
            check_results=[MANIFEST.result([]), READABLE.result([])],
        )
    faults = check(version.path)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": dg.MetadataValue.int(version.rows),
            "version": dg.MetadataValue.text(version.version),
            "written": dg.MetadataValue.bool(version.created),
            "rows_by_version": rows_plot([(one.version, one.rows) for one in versions(shop.data, version.name)]),
            "path": dg.MetadataValue.path(str(version.path)),
        },
        check_results=[MANIFEST.result(faults), READABLE.result(faults or unreadable(version.path))],
    )
