"""How many repositories became images that work, and what stopped the others: what `touchstone report images` tells.

Counted over the table image_builds, which has one row per attempt: a repository is built when one of its attempts was,
and usable (`smoke_ok`) when the image of one of them was. The images of the domains, whose recipes are ours, are
counted apart. Nothing is built or printed here.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from pipeline.tables import Store
from pipeline.types import CONTEXT, Record

NOT_THE_REPOSITORY = ("infrastructure", "disk", "host_not_allowed", "needs_buildkit")
"""Failure classes that say something of this machine, the network or our policy, and nothing of a repository."""

UNKNOWN = "unknown"
"""Stands for a language, a strategy or a failure class that no row names."""


class Rates(Record):
    """Counts of repositories, and shares of them; a share of nothing is 0."""

    repositories: int = 0
    """All of which an image was tried, whatever stopped it."""
    built: int = 0
    smoke_ok: int = 0
    tests_run: int = 0
    """Repositories whose own tests could be run in their image."""
    tests_ok: int = 0
    base_substituted: int = 0
    """Built ones whose base stands in for the one that was asked for."""
    built_rate: float = 0.0
    """`built` of `repositories`."""
    smoke_ok_rate: float = 0.0
    """`smoke_ok` of `repositories`."""
    tests_ok_rate: float = 0.0
    """`tests_ok` of `tests_run`."""


class StrategyRates(Rates):
    """Repositories by the strategy of their best attempt, and all attempts with that strategy."""

    attempts: int = 0
    attempts_built: int = 0


class FailureRate(Record):
    """Repositories without an image, by the failure class of their last attempt."""

    repositories: int
    rate: float
    """Share of all repositories, built ones included."""


class Seconds(Record):
    """How long builds took; those that found their image in the cache are left out of the percentiles."""

    builds: int
    p50: float
    p90: float
    total: float


class ImageReport(Rates):
    """Everything there is to say of the images of one data folder."""

    by_language: dict[str, Rates]
    by_strategy: dict[str, StrategyRates]
    by_failure_class: dict[str, FailureRate]
    build_seconds: Seconds
    infrastructure: dict[str, int]
    """The classes of NOT_THE_REPOSITORY among `by_failure_class`; their repositories stay in every denominator."""
    built_rate_without_infrastructure: float
    """`built` of the repositories that are not in `infrastructure`."""
    packages: Rates
    """Source packages of Debian alone: they were patched by somebody so that they build."""
    without_packages: Rates
    """All other repositories."""
    domains: Rates
    """The material of the domains, which is in no other number."""


# The best attempt of a repository is its first with a usable image, else its first with an image, else its last.
_ATTEMPTS = """
CREATE TEMP TABLE attempts AS
SELECT b.repository_id, b.position, coalesce(b.strategy, $unknown) AS strategy,
       coalesce(b.status = 'built', false) AS built, coalesce(b.status = 'built' AND b.smoke_ok, false) AS smoke_ok,
       b.tests_ok, b.base_substituted, b.failure_class,
       b.seconds, coalesce(b.cached, false) AS cached, coalesce(r.language, $unknown) AS language,
       coalesce(r.source = 'registry' AND r.full_name LIKE 'debian/%', false) AS package,
       coalesce(r.source = $context, false) AS of_domain
  FROM image_builds b LEFT JOIN repositories r USING (repository_id)
"""
_OUTCOMES = """
CREATE TEMP TABLE outcomes AS
SELECT *, coalesce(failure_class, $unknown) AS stopped_by FROM attempts
QUALIFY row_number() OVER (
    PARTITION BY repository_id
    ORDER BY smoke_ok DESC, built DESC, CASE WHEN built THEN position ELSE -position END
) = 1
"""
_COUNTS = """
SELECT {by} AS part, count(*), count(*) FILTER (built), count(*) FILTER (smoke_ok), count(tests_ok),
       count(*) FILTER (tests_ok), count(*) FILTER (built AND base_substituted)
  FROM outcomes WHERE {which} GROUP BY part ORDER BY part
"""
_STRATEGIES = """
SELECT strategy, count(*), count(*) FILTER (built) FROM attempts WHERE NOT of_domain GROUP BY strategy ORDER BY strategy
"""
_STOPPED = """
SELECT stopped_by, count(*) AS stopped FROM outcomes WHERE NOT built AND NOT of_domain
 GROUP BY stopped_by ORDER BY stopped DESC, stopped_by
"""
_SECONDS = """
SELECT count(seconds) FILTER (NOT cached), quantile_cont(seconds, 0.5) FILTER (NOT cached),
       quantile_cont(seconds, 0.9) FILTER (NOT cached), sum(seconds)
  FROM attempts WHERE NOT of_domain
"""


def image_report(store: Store) -> ImageReport:
    """Count what the working tables hold now, the latest attempt of each item only. Empty tables count as zero.

    Raises TableDamaged.
    """
    with duckdb.connect() as connection:
        connection.register("image_builds", _with_position(store.current("image_builds")))
        connection.register("repositories", store.current("repositories"))
        connection.execute(_ATTEMPTS, {"unknown": UNKNOWN, "context": CONTEXT})
        connection.execute(_OUTCOMES, {"unknown": UNKNOWN})
        whole = _rates(connection, "'all'").get("all", Rates())
        domains = _rates(connection, "'domains'", which="of_domain").get("domains", Rates())
        origins = _rates(connection, "CASE WHEN package THEN 'packages' ELSE 'others' END")
        failures = _failures(connection, whole.repositories)
        infrastructure = {name: failures[name].repositories for name in failures if name in NOT_THE_REPOSITORY}
        return ImageReport(
            **whole.model_dump(),
            by_language=_rates(connection, "language"),
            by_strategy=_by_strategy(connection),
            by_failure_class=failures,
            build_seconds=_seconds(connection),
            infrastructure=infrastructure,
            built_rate_without_infrastructure=_share(whole.built, whole.repositories - sum(infrastructure.values())),
            packages=origins.get("packages", Rates()),
            without_packages=origins.get("others", Rates()),
            domains=domains,
        )


def _with_position(rows: pa.Table) -> pa.Table:
    """The rows with their place in the table: the attempts at one repository are written together, in their order."""
    return rows.append_column("position", pa.array(range(rows.num_rows), pa.int64()))


def _rates(connection: duckdb.DuckDBPyConnection, by: str, *, which: str = "NOT of_domain") -> dict[str, Rates]:
    """`by` and `which` are expressions of ours over the columns of `outcomes`."""
    found = {}
    for part, repositories, built, smoke_ok, tests_run, tests_ok, substituted in connection.execute(
        _COUNTS.format(by=by, which=which)
    ).fetchall():
        found[part] = Rates(
            repositories=repositories,
            built=built,
            smoke_ok=smoke_ok,
            tests_run=tests_run,
            tests_ok=tests_ok,
            base_substituted=substituted,
            built_rate=_share(built, repositories),
            smoke_ok_rate=_share(smoke_ok, repositories),
            tests_ok_rate=_share(tests_ok, tests_run),
        )
    return found


def _by_strategy(connection: duckdb.DuckDBPyConnection) -> dict[str, StrategyRates]:
    """Strategies that were tried, those that were nobody's best included."""
    best: Mapping[str, Rates] = _rates(connection, "strategy")
    return {
        strategy: StrategyRates(
            **best.get(strategy, Rates()).model_dump(), attempts=attempts, attempts_built=attempts_built
        )
        for strategy, attempts, attempts_built in connection.execute(_STRATEGIES).fetchall()
    }


def _failures(connection: duckdb.DuckDBPyConnection, repositories: int) -> dict[str, FailureRate]:
    stopped = connection.execute(_STOPPED).fetchall()
    return {name: FailureRate(repositories=count, rate=_share(count, repositories)) for name, count in stopped}


def _seconds(connection: duckdb.DuckDBPyConnection) -> Seconds:
    row = connection.execute(_SECONDS).fetchone()
    assert row is not None  # an aggregate always has one row
    builds, p50, p90, total = row
    return Seconds(builds=builds, p50=round(p50 or 0.0, 2), p90=round(p90 or 0.0, 2), total=round(total or 0.0, 2))


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
