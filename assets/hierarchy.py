"""Published attempts divided into sub-goals, and the data sets and benchmarks of hierarchies that are made of them."""

from collections.abc import Mapping

import dagster as dg

from assets.annotating import agreed, annotate, names_of, parents
from assets.checks import COMPLETE, MANIFEST, READABLE, SCHEMA, UNIQUE, completeness, table_results
from assets.columns_shown import columns_of
from assets.datasets import terminal_snapshot
from assets.environments import games_snapshot
from assets.metadata import preview_table
from assets.operated import operated
from assets.plots import rows_plot
from assets.resources import RetryResource, Workshop, WorkshopResource, code_commit
from pipeline.hierarchy import columns
from pipeline.published_checks import unreadable
from pipeline.schemas import TableSchema, to_rows
from pipeline.snapshots import SnapshotVersion, check, versions
from pipeline.stages.benchmarks import PREFIX, BenchmarkPublication, publish_benchmark
from pipeline.stages.hierarchical import HierarchicalPublication, publish_hierarchical
from pipeline.token_counts import TokenCounter
from training.environments.registry import facts_of

BENCHMARKS = ("scienceworld", "alfworld", "textcraft")
"""Games that there is a benchmark of."""


@operated(
    group="hierarchy",
    kinds={"deltalake"},
    columns=columns_of("annotations"),
    promises=[COMPLETE, SCHEMA, UNIQUE],
    deps=[terminal_snapshot, games_snapshot],
    partitioned=False,
    freshness=None,
)
def annotations(workshop: WorkshopResource, retry: RetryResource) -> dg.MaterializeResult:
    """Sub-goals and progress of each published attempt, by rules or by a model, with what speaks against using them."""
    shop = workshop.open()
    report = annotate(shop, retry.options(shop))
    shown = ["trajectory_id", "environment", "annotator", "faults", "reason"]
    rows = to_rows(shop.store().current("annotations", shown).slice(0, 10))
    results = {one.check_name: one for one in table_results(shop.store(), "annotations")}
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": dg.MetadataValue.int(report.total),
            "done": dg.MetadataValue.int(report.done),
            "failed": dg.MetadataValue.json(report.failed),
            "parents": dg.MetadataValue.text(", ".join(parents(shop))),
            "preview": preview_table(rows, shown),
        },
        check_results=[completeness(report), results[SCHEMA.name], results[UNIQUE.name]],
    )


def _columns(schema: TableSchema, meanings: Mapping[str, str]) -> dg.TableSchema:
    shown = [dg.TableColumn(one.name, str(one.type), description=meanings.get(one.name)) for one in schema.arrow]
    return dg.TableSchema(columns=shown)


def _published(shop: Workshop, version: SnapshotVersion, schema: TableSchema) -> dg.MaterializeResult:
    faults = check(version.path)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": dg.MetadataValue.int(version.rows),
            "version": dg.MetadataValue.text(version.version),
            "written": dg.MetadataValue.bool(version.created),
            "parents": dg.MetadataValue.text(", ".join(parents(shop))),
            "rows_by_version": rows_plot([(one.version, one.rows) for one in versions(shop.data, version.name)]),
            "path": dg.MetadataValue.path(str(version.path)),
        },
        check_results=[MANIFEST.result(faults), READABLE.result(faults or unreadable(version.path, schema))],
    )


def _dataset(name: str) -> dg.AssetsDefinition:
    """The asset of one of the five data sets."""
    schema = columns.DATASETS[name]

    def body(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
        shop = workshop.open()
        tokenizer = shop.settings.dataset.tokenizer
        tokens = TokenCounter(shop.folder / tokenizer) if tokenizer is not None else None
        publication = HierarchicalPublication(parents(shop), names_of(shop), tokens, agreed(shop))
        made = publish_hierarchical(
            shop.store(), shop.data, publication, code_commit=code_commit(), run_id=context.run.run_id, names=[name]
        )
        return _published(shop, made[name], schema)

    body.__name__ = name
    body.__doc__ = f"The data set `{name}` as an immutable version, made of the published attempts it names as parents."
    return operated(
        group="hierarchy",
        kinds={"parquet"},
        columns=_columns(schema, columns.meanings(name)),
        promises=[MANIFEST, READABLE],
        deps=[annotations],
        partitioned=False,
        freshness=None,
    )(body)


def _benchmark(game: str) -> dg.AssetsDefinition:
    """The asset of the benchmark of one game."""

    def body(context: dg.AssetExecutionContext, workshop: WorkshopResource) -> dg.MaterializeResult:
        shop = workshop.open()
        if game not in shop.settings.environments.games:
            context.log.warning(f"{game} is not among the games of [environments]: there is nothing to publish")
            return dg.MaterializeResult(
                metadata={"dagster/row_count": dg.MetadataValue.int(0)},
                check_results=[MANIFEST.result([]), READABLE.result([])],
            )
        name = shop.settings.environments.snapshot
        parent = next((one for one in parents(shop) if one.partition("@")[0] == name), name)
        publication = BenchmarkPublication(game, parent, names_of(shop), facts_of(game).max_steps)
        version = publish_benchmark(
            shop.store(), shop.data, publication, code_commit=code_commit(), run_id=context.run.run_id
        )
        return _published(shop, version, columns.BENCHMARK)

    body.__name__ = f"hierarchical_{game}"
    body.__doc__ = (
        f"The benchmark `{PREFIX}{game}`: tasks with their divided reference solutions, and what is held out."
    )
    return operated(
        group="hierarchy",
        kinds={"parquet"},
        columns=_columns(columns.BENCHMARK, columns.meanings("benchmark")),
        promises=[MANIFEST, READABLE],
        deps=[annotations],
        partitioned=False,
        freshness=None,
    )(body)


system1, system2, step_high, step_low, step_progress = (
    _dataset(name) for name in ("system1", "system2", "step_high", "step_low", "step_progress")
)
hierarchical_scienceworld, hierarchical_alfworld, hierarchical_textcraft = map(_benchmark, BENCHMARKS)
