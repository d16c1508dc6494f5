"""Checks that stop the graph: each stage must have a row for every item it was given, and rows must be coherent.

They are computed in the asset's own step, over its own items: a separate check on a partitioned asset would load all
partitions.
"""

from collections.abc import Sequence

import dagster as dg

from pipeline.batch import StageReport

COMPLETE = "every_item_has_a_row"


def complete(asset: str) -> dg.AssetCheckSpec:
    """The blocking check of a stage's asset."""
    return dg.AssetCheckSpec(
        COMPLETE,
        asset=asset,
        blocking=True,
        description="Each item that the stage was given is settled: done, or failed with its reason.",
    )


def completeness(report: StageReport) -> dg.AssetCheckResult:
    """The result of `complete` for one call of a stage."""
    settled = report.done + sum(report.failed.values())
    return dg.AssetCheckResult(
        check_name=COMPLETE,
        passed=settled == report.total and not report.missing,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"items": report.total, "settled": settled, "missing": "\n".join(report.missing[:10])},
    )


def no_faults(check: str, faults: Sequence[str]) -> dg.AssetCheckResult:
    """An ERROR result that fails when there are faults, and names the first of them."""
    return dg.AssetCheckResult(
        check_name=check,
        passed=not faults,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"faults": len(faults), "first": "\n".join(faults[:10])},
    )
