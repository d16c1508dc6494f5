"""Checks of every asset, in its own step: a separate check on a partitioned asset would load all partitions.

Blocking ones (ERROR) stop the graph before a wrong row is published; a yield out of the ordinary is a warning.
What is looked at, and how, is in pipeline/row_checks.py, stage_yields.py and published_checks.py.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import dagster as dg

from assets.resources import Workshop
from pipeline.batch import StageReport
from pipeline.row_checks import UPSTREAM, doubles, misfits, orphans
from pipeline.schemas import TABLES
from pipeline.stage_yields import unusual, yields
from pipeline.tables import Store

_SHOWN = 10
"""Faults that a check names."""

BESIDE: Mapping[str, tuple[str, ...]] = {
    "repositories": ("listings", "contexts"),
    "instances": ("selections", "contaminations"),
}
"""Tables that an asset writes besides the one of its own name."""


class Promise(NamedTuple):
    """A check that an asset has."""

    name: str
    description: str
    blocking: bool = True

    def spec(self, asset: str) -> dg.AssetCheckSpec:
        return dg.AssetCheckSpec(self.name, asset=asset, blocking=self.blocking, description=self.description)

    def result(self, faults: Sequence[str], **shown: str | int) -> dg.AssetCheckResult:
        """Fails when there are faults, and names the first of them."""
        return dg.AssetCheckResult(
            check_name=self.name,
            passed=not faults,
            severity=dg.AssetCheckSeverity.ERROR if self.blocking else dg.AssetCheckSeverity.WARN,
            metadata={"faults": len(faults), "first": "\n".join(faults[:_SHOWN]), **shown},
        )


COMPLETE = Promise(
    "every_item_has_a_row", "Each item that upstream gave to the stage is settled: done, or failed with its reason."
)
SCHEMA = Promise("columns_fit_the_schema", "The files hold the columns, with the types, of this version of the schema.")
UNIQUE = Promise("ids_are_unique", "No id names two current rows.")
UPSTREAM_ROWS = Promise("rows_come_from_upstream", "Each row is about something that upstream has, and let pass.")
YIELD = Promise(
    "yield_is_usual",
    "What this run kept of its items lies within [yields], and is like what was kept before.",
    blocking=False,
)
PROVEN = Promise("admitted_by_every_gate", "Each admitted instance passed every gate there is.")
UNTOLD = Promise("no_instruction_tells_the_solution", "No command of a solution stands in the instruction of its task.")
EARNED = Promise(
    "passed_means_all_tests_passed",
    "Behind each verdict `passed` all tests of admission ran, and none of them was skipped or failed.",
)
IDLE = Promise("doing_nothing_never_passes", "No verifier is content with an agent that did nothing.")
MANIFEST = Promise("files_match_manifest", "Every file and every row of the version is the one that was published.")
READABLE = Promise("version_reads_back", "DuckDB and Arrow find the rows, splits and ids that the manifest tells of.")
FIT = Promise("only_proven_rows_are_published", "Each row passed, by all its tests, and tells no solution.")
HELD_OUT = Promise("some_rows_are_held_out", "The model was measured on repositories of owners it had not seen.")
KEPT = Promise("model_reads_back", "Every file of the version is the one that was written.")
TRAIN_ONLY = Promise("only_train_rows_are_learned", "No row of the splits validation and test was learned from.")
LEARNED = Promise("loss_fell", "The loss of the last tenth of the steps is below that of the first.", blocking=False)

STAGE = (COMPLETE, SCHEMA, UNIQUE, UPSTREAM_ROWS, YIELD)
"""Of every asset that writes a working table."""


def stage_results(shop: Workshop, asset: str, report: StageReport) -> list[dg.AssetCheckResult]:
    """The results of STAGE for the stage that has just run."""
    return [
        completeness(report),
        *table_results(shop.store(), asset),
        yield_result(shop, asset, run_began(dg.AssetExecutionContext.get())),
    ]


def refusals(result: dg.ExecuteInProcessResult) -> list[str]:
    """What the blocking checks of a run refused, each with its first fault."""
    refused = (one for one in result.get_asset_check_evaluations() if one.blocking and not one.passed)
    return [
        f"{one.asset_key.to_user_string()}: {one.check_name}: {str(one.metadata['first'].value).splitlines()[0]}"
        for one in refused
    ]


def completeness(report: StageReport) -> dg.AssetCheckResult:
    """The result of COMPLETE for one call of a stage."""
    settled = report.done + sum(report.failed.values())
    faults = [f"{name} has no row" for name in report.missing]
    if settled != report.total:
        faults.append(f"{report.total - settled} items are not settled")
    return COMPLETE.result(faults, items=report.total, settled=settled)


def table_results(store: Store, asset: str) -> list[dg.AssetCheckResult]:
    """The results of SCHEMA, UNIQUE and UPSTREAM_ROWS for the tables that an asset writes."""
    tables = (asset, *BESIDE.get(asset, ()))
    versions = ", ".join(f"{table} {TABLES[table].version}" for table in tables)
    return [
        SCHEMA.result([fault for table in tables for fault in misfits(store, table)], versions=versions),
        UNIQUE.result([fault for table in tables for fault in doubles(store, table)]),
        UPSTREAM_ROWS.result([fault for table in tables if table in UPSTREAM for fault in orphans(store, table)]),
    ]


def yield_result(shop: Workshop, asset: str, began: datetime.datetime) -> dg.AssetCheckResult:
    """The result of YIELD for what was recorded since then."""
    before, now = yields(shop.store(), asset, began)
    return YIELD.result(unusual(before, now, shop.settings.yields, asset), now=str(now), before=str(before))


def run_began(context: dg.AssetExecutionContext) -> datetime.datetime:
    """When the run began that a step belongs to."""
    record = context.instance.get_run_record_by_id(context.run.run_id)
    assert record is not None and record.start_time is not None  # it is running
    return datetime.datetime.fromtimestamp(record.start_time, datetime.UTC)
