"""How many tasks were written and admitted, and which gate stopped the others: `touchstone report instances`.

Counted over the tables instances, selections and contaminations. An admitted instance is one that passed every gate, is
no near copy of another one and not too near to a benchmark. Nothing is made or printed here.
"""

from __future__ import annotations

import duckdb

from pipeline.tables import Store
from pipeline.types import DOMAINS, Record

PER_REPOSITORY = 8
"""Most documented tasks of one repository that are counted."""
PER_FAMILY = 4
"""Most tasks of one family that are counted."""
FAMILIES = 8
"""Families that a complete domain has at least."""
TASKS = 25
"""Admitted tasks that a complete domain has at least …"""
TASKS_OF_GUESTS = 8
"""… and the domain of virtual machines, whose tasks take longest."""
LEVELS = 3
"""Levels of difficulty in a complete domain."""


class Yield(Record):
    """Tasks of one kind; a share of nothing is 0."""

    written: int
    admitted: int
    rate: float
    """`admitted` of `written`."""


class GateYield(Record):
    """What one gate did with the tasks that came to it."""

    reached: int
    passed: int
    rate: float
    """`passed` of `reached`."""


class DomainYield(Yield):
    """Tasks of one domain."""

    families: int
    """Families with an admitted task."""
    counted: int
    """Admitted tasks, at most four of each family."""
    levels: int
    """Levels of difficulty among them."""


class InstanceReport(Record):
    """Everything there is to say of the instances of one data folder."""

    written: int
    admitted: int
    documented: int
    """Admitted ones that were made from what repositories document, at most eight of each."""
    by_domain: dict[str, DomainYield]
    domains_complete: int
    """Domains with enough families, tasks and levels of difficulty."""
    families: dict[str, int]
    """Families with an admitted task, by domain."""
    by_gate: dict[str, GateYield]
    """In the order in which tasks come to them."""
    by_language: dict[str, Yield]
    by_difficulty: dict[str, Yield]
    by_generator: dict[str, Yield]
    flaky: int
    """Tasks whose verifier did not say the same each time on the same state; none of them is admitted."""


_TABLES = {
    "instances": [
        "instance_id",
        "repository_id",
        "generator",
        "domain",
        "language",
        "family",
        "difficulty",
        "gates",
        "flake_rate",
        "admitted",
    ],
    "selections": ["instance_id", "selected"],
    "contaminations": ["instance_id", "decision"],
}
"""With the columns that are counted."""

_TASKS = """
CREATE TEMP TABLE tasks AS
SELECT i.instance_id, i.repository_id, i.generator, i.domain, i.language, i.family, i.difficulty, i.gates,
       i.flake_rate, coalesce(i.admitted AND s.selected, false) AND c.instance_id IS NULL AS admitted,
       i.admitted AND NOT coalesce(s.selected, true) AS copied, c.instance_id IS NOT NULL AS contaminated
  FROM instances i LEFT JOIN selections s USING (instance_id)
  LEFT JOIN (SELECT DISTINCT instance_id FROM contaminations WHERE decision = 'drop') c USING (instance_id)
 WHERE i.instance_id IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY i.instance_id ORDER BY i.admitted DESC) = 1
"""
_WHOLE = """
SELECT count(*), count(*) FILTER (admitted), count(*) FILTER (flake_rate > 0),
       (SELECT coalesce(sum(least(n, $most)), 0)::BIGINT FROM
          (SELECT count(*) AS n FROM tasks WHERE admitted AND generator = 'documented' GROUP BY repository_id))
  FROM tasks
"""
_PARTS = """
SELECT {column}, count(*), count(*) FILTER (admitted) FROM tasks GROUP BY {column} ORDER BY {column}
"""
_DOMAINS = """
SELECT domain, sum(written)::BIGINT, sum(admitted)::BIGINT, count(*) FILTER (admitted > 0),
       sum(least(admitted, $most))::BIGINT, len(list_distinct(flatten(list(levels) FILTER (admitted > 0))))
  FROM (SELECT domain, family, count(*) AS written, count(*) FILTER (admitted) AS admitted,
               list(DISTINCT difficulty) FILTER (admitted) AS levels
          FROM tasks GROUP BY domain, family)
 GROUP BY domain ORDER BY domain
"""
_GATES = """
WITH seen AS (
    SELECT gate.gate AS name, gate.passed AS passed, place
      FROM (SELECT unnest(gates) AS gate, generate_subscripts(gates, 1) AS place FROM tasks)
    UNION ALL
    SELECT 'near_copy', NOT copied, 1000 FROM tasks WHERE admitted OR copied OR contaminated
    UNION ALL
    SELECT 'decontamination', NOT contaminated, 1001 FROM tasks
     WHERE (admitted OR contaminated) AND EXISTS (SELECT 1 FROM contaminations)
)
SELECT name, count(*), count(*) FILTER (passed) FROM seen GROUP BY name ORDER BY avg(place), name
"""


def instance_report(store: Store) -> InstanceReport:
    """Count what the working tables hold now. Empty tables count as zero. Raises TableDamaged."""
    with duckdb.connect() as connection:
        for table, columns in _TABLES.items():
            connection.register(table, store.current(table, columns))
        connection.execute(_TASKS)
        whole = connection.execute(_WHOLE, {"most": PER_REPOSITORY}).fetchone()
        assert whole is not None  # an aggregate always has one row
        written, admitted, flaky, documented = whole
        by_domain = _by_domain(connection)
        packs = {name: one for name, one in by_domain.items() if name in DOMAINS}
        return InstanceReport(
            written=written,
            admitted=admitted,
            documented=documented,
            by_domain=by_domain,
            domains_complete=sum(is_complete(name, one) for name, one in packs.items()),
            families={name: one.families for name, one in packs.items()},
            by_gate={
                name: GateYield(reached=reached, passed=passed, rate=_share(passed, reached))
                for name, reached, passed in connection.execute(_GATES).fetchall()
            },
            by_language=_parts(connection, "language"),
            by_difficulty=_parts(connection, "difficulty"),
            by_generator=_parts(connection, "generator"),
            flaky=flaky,
        )


def is_complete(domain: str, found: DomainYield) -> bool:
    """Whether a domain has enough unlike families, tasks and levels of difficulty."""
    least = TASKS_OF_GUESTS if domain == "qemu" else TASKS
    return found.families >= FAMILIES and found.counted >= least and found.levels >= LEVELS


def _parts(connection: duckdb.DuckDBPyConnection, column: str) -> dict[str, Yield]:
    rows = connection.execute(_PARTS.format(column=column)).fetchall()
    return {name: Yield(written=count, admitted=good, rate=_share(good, count)) for name, count, good in rows}


def _by_domain(connection: duckdb.DuckDBPyConnection) -> dict[str, DomainYield]:
    return {
        domain: DomainYield(
            written=written,
            admitted=admitted,
            rate=_share(admitted, written),
            families=families,
            counted=counted,
            levels=levels or 0,
        )
        for domain, written, admitted, families, counted, levels in connection.execute(
            _DOMAINS, {"most": PER_FAMILY}
        ).fetchall()
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
