"""What a card says that the rows of a version do not: how many things came to each stage, and how well they held."""

from __future__ import annotations

import duckdb
from pydantic import Field

from pipeline.curation.decisions import StepCount
from pipeline.curation.splits import SplitConfig
from pipeline.curation_report import FindingCount
from pipeline.funnel import Funnel, funnel
from pipeline.instance_report import GateYield, Yield, instance_report
from pipeline.replay_rate import ReplayRate, replay_rate
from pipeline.tables import Store
from pipeline.types import Record


class Flakes(Record):
    """Verifiers that did not say the same each time on the same state."""

    checked: int
    """Tasks whose verifier was run several times."""
    flaky: int
    """… that did not say the same; none of them is published."""


class AttemptYield(Record):
    """Recorded attempts of one agent with one model at the tasks of one domain."""

    domain: str
    agent: str
    model: str | None
    attempts: int
    judged: int
    """… with a verdict."""
    passed: int


class CardFacts(Record):
    """Everything is optional: a card has the sections for which there is something."""

    code_commit: str | None = None
    schema_version: int | None = None
    funnel: Funnel | None = None
    gates: dict[str, GateYield] = Field(default_factory=dict)
    by_domain: dict[str, Yield] = Field(default_factory=dict)
    """Tasks that were written and admitted."""
    attempts: tuple[AttemptYield, ...] = ()
    flakes: Flakes | None = None
    replays: ReplayRate | None = None
    licences: tuple[str, ...] = ()
    """SPDX ids that the rows may be under."""
    steps: tuple[StepCount, ...] = ()
    """Of curation, in order."""
    waiting: int | None = None
    """Attempts that are out until somebody looks at them."""
    splits: SplitConfig | None = None
    by_finding: dict[str, FindingCount] = Field(default_factory=dict)
    verified_by_licence: tuple[tuple[str | None, int], ...] = ()
    """Attempts that passed, published or not, by the licence of their repository."""
    compared: bool | None = None
    """Whether there were benchmarks to compare with; None where nobody asked."""


_ATTEMPTS = """
SELECT coalesce(i.domain, 'not known'), t.agent, t.model, count(*),
       count(*) FILTER (v.outcome IN ('passed', 'failed')), count(*) FILTER (v.outcome = 'passed')
  FROM trajectories t
  LEFT JOIN (SELECT trajectory_id, any_value(outcome) AS outcome FROM verifications
              WHERE outcome IN ('passed', 'failed') GROUP BY trajectory_id) v USING (trajectory_id)
  LEFT JOIN (SELECT instance_id, any_value(domain) AS domain FROM instances GROUP BY instance_id) i USING (instance_id)
 WHERE t.trajectory_id IS NOT NULL AND t.agent IS NOT NULL
 GROUP BY ALL ORDER BY ALL
"""
_LICENCES = """
SELECT r.license, count(*) AS n
  FROM (SELECT DISTINCT trajectory_id FROM verifications WHERE outcome = 'passed')
  JOIN (SELECT trajectory_id, any_value(instance_id) AS instance_id FROM trajectories GROUP BY 1) USING (trajectory_id)
  JOIN (SELECT instance_id, any_value(repository_id) AS repository_id FROM instances GROUP BY 1) USING (instance_id)
  JOIN (SELECT repository_id, any_value(license) AS license FROM repositories GROUP BY 1) r USING (repository_id)
 GROUP BY 1 ORDER BY n DESC, 1
"""
_FLAKES = """
SELECT count(*), count(*) FILTER (rate > 0)
  FROM (SELECT max(flake_rate) AS rate FROM instances WHERE instance_id IS NOT NULL GROUP BY instance_id)
 WHERE rate IS NOT NULL
"""
_TABLES = {
    "trajectories": ["trajectory_id", "instance_id", "agent", "model"],
    "verifications": ["trajectory_id", "outcome"],
    "instances": ["instance_id", "repository_id", "domain", "flake_rate"],
    "repositories": ["repository_id", "license"],
}


def facts_of(store: Store, known: CardFacts) -> CardFacts:
    """`known`, which is what chose the rows, with what the working tables hold now. Raises TableDamaged."""
    with duckdb.connect() as connection:
        for table, columns in _TABLES.items():
            connection.register(table, store.current(table, columns))
        attempts = connection.execute(_ATTEMPTS).fetchall()
        licences = connection.execute(_LICENCES).fetchall()
        counted = connection.execute(_FLAKES).fetchone()
    assert counted is not None  # an aggregate always has one row
    instances = instance_report(store)
    counts: dict[str, object] = {
        "funnel": funnel(store),
        "gates": instances.by_gate,
        "by_domain": {
            name: Yield(written=one.written, admitted=one.admitted, rate=one.rate)
            for name, one in instances.by_domain.items()
        },
        "attempts": tuple(
            AttemptYield(domain=domain, agent=agent, model=model, attempts=made, judged=judged, passed=passed)
            for domain, agent, model, made, judged, passed in attempts
        ),
        "flakes": Flakes(checked=counted[0], flaky=counted[1]) if counted[0] else None,
        "replays": replay_rate(store),
        "verified_by_licence": tuple(licences),
    }
    return known.model_copy(update=counts)
