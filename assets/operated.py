"""What every asset has besides its body: owner, pool, retries, freshness, columns, checks.

An asset's own file says what it does and which of its kind it is; here is what is the same for all.
"""

import datetime
import functools
from collections.abc import Callable, Sequence

import dagster as dg

from assets.checks import Promise
from assets.partitions import day_by_stream, one_run
from assets.resources import WorkshopResource
from pipeline.errors import InfrastructureFailure
from sandbox.errors import SandboxUnavailable

OWNER = "team:data-engineering"
"""Who answers for the assets; a team, never a person. Change it here."""

RETRY = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL)
"""For WORTH_ANOTHER_TRY alone; items that fail within a stage are rows, and have retries of their own."""

WORTH_ANOTHER_TRY = (SandboxUnavailable, InfrastructureFailure)

EVERY_NIGHT = dg.FreshnessPolicy.cron(deadline_cron="0 12 * * *", lower_bound_delta=datetime.timedelta(hours=10))
"""Materialized between 02:00 UTC, when the night's run begins, and noon: stale from then on when a night was missed."""

Body = Callable[..., dg.MaterializeResult]


def operated(
    *,
    group: str,
    kinds: set[str],
    columns: dg.TableSchema,
    promises: Sequence[Promise],
    deps: Sequence[dg.AssetsDefinition] = (),
    pool: str | None = None,
    partitioned: bool = True,
    freshness: dg.FreshnessPolicy | None = EVERY_NIGHT,
) -> Callable[[Body], dg.AssetsDefinition]:
    """An asset of the graph, named and described by its function. `partitioned`: by crawl day and stream."""

    def made(body: Body) -> dg.AssetsDefinition:
        return dg.asset(
            partitions_def=day_by_stream if partitioned else None,
            backfill_policy=one_run if partitioned else None,
            group_name=group,
            kinds=kinds,
            deps=list(deps),
            owners=[OWNER],
            pool=pool,
            retry_policy=RETRY,
            freshness_policy=freshness,
            metadata={"dagster/column_schema": columns},
            check_specs=[promise.spec(body.__name__) for promise in promises],
        )(_guarded(body))

    return made


def _guarded(body: Body) -> Body:
    """Only what may be over in a moment is tried again; a mistake in the configuration is told at once."""

    @functools.wraps(body)
    def guarded(*given: object, workshop: WorkshopResource, **resources: object) -> dg.MaterializeResult:
        try:
            return body(*given, workshop=workshop, **resources)
        except WORTH_ANOTHER_TRY:
            raise
        except Exception as error:
            raise dg.Failure(description=str(error), allow_retries=False) from error

    return guarded
