"""What curation did with the verified attempts: `touchstone report curation`.

Counted over the table curations and the decisions on it; nothing is decided or printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from pipeline.candidates import Looked, candidates
from pipeline.curation.decisions import Candidate, DatasetConfig, Decisions, Queued, StepCount, decide
from pipeline.curation.deny_list import still_published
from pipeline.curation.reviews import Review, read_reviews
from pipeline.tables import Store
from pipeline.types import Record

MOST_GROUPS = 50
"""Groups of copies that are listed, the largest first."""
MOST_COPIES = 20
"""Copies that are listed of one group."""
NO_LICENCE = "none or several"


class LicenceCount(Record):
    """Attempts at tasks of repositories under one licence."""

    verified: int
    kept: int


class FindingCount(Record):
    """What the scrubber found of one kind in the attempts that are kept."""

    rows: int
    replaced: int
    """Places where a placeholder stands."""
    planted: int
    """Places where the value stays, since its task planted it."""


class CopyGroup(Record):
    """Attempts that say the same."""

    kept: str
    """The one that stands for all; itself out where it is a near copy of yet another one."""
    copies: int
    ids: tuple[str, ...]
    """The first of the copies."""


class CurationReport(Record):
    """Everything there is to say of the curation of one data folder."""

    rules: str
    benchmark_sha256: str | None
    verified: int
    kept: int
    steps: tuple[StepCount, ...]
    by_finding: dict[str, FindingCount]
    by_licence: dict[str, LicenceCount]
    queue: tuple[Queued, ...]
    """Attempts that wait for a review."""
    copy_groups: int
    copies: tuple[CopyGroup, ...]
    denied_in_published: dict[str, int]
    """Rows of denied repositories by published version that still has some."""


def decisions_of(store: Store, config: DatasetConfig, folder: Path, looked: Looked) -> Decisions:
    """What is in the next version and what is not. `folder` is where the configuration lies.

    Raises ConfigurationError for the file of reviews, TableDamaged and RowMissing.
    """
    return decide(candidates(store, looked), config, _reviews(config, folder))


def curation_report(store: Store, config: DatasetConfig, folder: Path, looked: Looked, snapshot: str) -> CurationReport:
    """Count what the working tables hold now; empty ones count as zero.

    Raises what `decisions_of` raises, and SnapshotDamaged.
    """
    given = candidates(store, looked)
    decisions = decide(given, config, _reviews(config, folder))
    groups = _groups(decisions)
    return CurationReport(
        rules=looked.rules,
        benchmark_sha256=looked.benchmark_sha256,
        verified=len(given),
        kept=len(decisions.kept),
        steps=decisions.steps,
        by_finding=findings_by_kind(store, looked, decisions.kept),
        by_licence=_licences(given, frozenset(decisions.kept)),
        queue=decisions.queue,
        copy_groups=len(groups),
        copies=tuple(groups[:MOST_GROUPS]),
        denied_in_published=still_published(store.root, snapshot, config.deny),
    )


def _reviews(config: DatasetConfig, folder: Path) -> dict[str, Review]:
    return read_reviews(folder / config.reviews) if config.reviews else {}


_FINDINGS = """
WITH newest AS (
    SELECT trajectory_id, findings FROM curations SEMI JOIN kept USING (trajectory_id)
     WHERE rules = $rules AND benchmark_sha256 IS NOT DISTINCT FROM $benchmark_sha256
   QUALIFY row_number() OVER (PARTITION BY trajectory_id ORDER BY trajectory_attempt DESC) = 1
), found AS (
    SELECT trajectory_id, finding.kind, finding.count AS n, finding.placeholder = '' AS planted
      FROM (SELECT trajectory_id, unnest(findings) AS finding FROM newest)
)
SELECT kind, count(DISTINCT trajectory_id), coalesce(sum(n) FILTER (NOT planted), 0)::BIGINT,
       coalesce(sum(n) FILTER (planted), 0)::BIGINT
  FROM found GROUP BY kind ORDER BY kind
"""


def findings_by_kind(store: Store, looked: Looked, kept: Sequence[str]) -> dict[str, FindingCount]:
    """What was found in the attempts that are kept. Raises TableDamaged."""
    columns = ["trajectory_id", "trajectory_attempt", "rules", "benchmark_sha256", "findings"]
    named = {"rules": looked.rules, "benchmark_sha256": looked.benchmark_sha256}
    with duckdb.connect() as connection:
        connection.register("curations", store.current("curations", columns))
        connection.register("kept", pa.table({"trajectory_id": pa.array(kept, pa.string())}))
        rows = connection.execute(_FINDINGS, named).fetchall()
    return {kind: FindingCount(rows=n, replaced=replaced, planted=planted) for kind, n, replaced, planted in rows}


def _licences(given: Sequence[Candidate], kept: frozenset[str]) -> dict[str, LicenceCount]:
    """The licence of most attempts first."""
    verified = Counter(one.license or NO_LICENCE for one in given)
    of_kept = Counter(one.license or NO_LICENCE for one in given if one.trajectory_id in kept)
    names = sorted(verified, key=lambda name: (-verified[name], name))
    return {name: LicenceCount(verified=verified[name], kept=of_kept[name]) for name in names}


def _groups(decisions: Decisions) -> list[CopyGroup]:
    """The largest first."""
    copies: dict[str, list[str]] = {}
    for one in decisions.excluded:
        if one.step in ("exact_copy", "near_copy") and one.other is not None:
            copies.setdefault(one.other, []).append(one.trajectory_id)
    return [
        CopyGroup(kept=kept, copies=len(ids), ids=tuple(ids[:MOST_COPIES]))
        for kept, ids in sorted(copies.items(), key=lambda group: (-len(group[1]), group[0]))
    ]
