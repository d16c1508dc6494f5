"""What a run took and gave, from the working tables and the journal of its data folder. Nothing is written there.

Failures of the machine are no part of a yield, for such items are tried again; what they took is part of the cost.
CPU time is recorded nowhere: that of an item is at most its active seconds on the cores that it could have had.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from pipeline.capacity.measures import Measure, mean_of, share_of, significant
from pipeline.capacity.stages import STAGES, Kind, Measured, Stage, StageMeasure
from pipeline.capacity.yields import Yields
from pipeline.journal import Span, spans
from pipeline.snapshots import versions
from pipeline.tables import Store

_CALLS = """
SELECT t.item_key, t.attempt,
       coalesce(list_sum(flatten([json_extract(s.extra, '$.calls[*].seconds')::DOUBLE[] FOR s IN steps])), 0),
       coalesce(list_sum(flatten([json_extract(s.extra, '$.calls[*].cached_tokens')::BIGINT[] FOR s IN steps])), 0)
  FROM read_parquet($files, union_by_name = true) t
 WHERE t.trajectory_id IS NOT NULL
 ORDER BY t.attempt
"""
"""Read file by file: the steps of all attempts need not fit into memory."""


@dataclass(frozen=True)
class Publication:
    """What curation would publish of the recorded run."""

    name: str
    kept: frozenset[str]
    """Ids of trajectories."""


def measured(store: Store, publication: Publication, *, cores: float, agents: Sequence[str] = ()) -> Measured:
    """Everything that was measured; a stage that no item went through is left out.

    Of the attempts, those of `agents`; of all agents with a model where none is named, or of all but `noop` where no
    model made any. Raises TableDamaged and SnapshotDamaged.
    """
    yields = Yields(store, publication.kept, agents)
    calls = _calls(store)
    found = [
        *(one for stage in STAGES if (one := _stage(store, stage, yields, calls, cores)) is not None),
        *_published(store, publication.name),
    ]
    return Measured(cores=cores, attempts=yields.whose, stages=tuple(found))


def _stage(
    store: Store, stage: Stage, yields: Yields, calls: Mapping[str, tuple[float, int]], cores: float
) -> StageMeasure | None:
    kind, given = STAGES[stage], yields.pairs(stage)
    gives = None if kind.gives is None or not given else (mean_of if stage in _MANY else share_of)(given)
    if not kind.timed:
        return None if gives is None else StageMeasure(stage=stage, yielded=gives, basis=_of(gives, kind))
    taken = [span for span in spans(store.root, stage) if yields.counts(stage, entity(stage, span.key))]
    if not taken:
        return None
    waited = yields.judging() if stage == "judgement" else {key: s for key, (s, _) in calls.items()}
    times = _Times(stage, taken, yields, waited if stage in {"rollout", "judgement"} else {})
    share = significant(min(kind.cores, cores / times.active_at_a_time))
    tokens = yields.tokens(stage, {key: cached for key, (_, cached) in calls.items()})
    return StageMeasure(
        stage=stage,
        seconds=times.seconds,
        active_seconds=times.active,
        cores=share,
        concurrency=significant(times.at_a_time),
        table_bytes=significant(_table_bytes(store, stage, kind)),
        kept_bytes=mean_of(kept) if (kept := yields.kept_bytes(stage)) else None,
        prompt_tokens=tokens[0],
        cached_tokens=tokens[1],
        completion_tokens=tokens[2],
        yielded=gives,
        basis=f"{_of(times.seconds, kind)}, {times.at_a_time:.1f} at a time{yields.warning(stage)}",
    )


_MANY = frozenset({"instances", "sampling"})
"""Stages whose items give any number of those of the next stage."""


def entity(stage: Stage, key: str) -> str:
    """The repository, instance or attempt that an item of the journal is about."""
    part = key.partition("/")[2] if stage == "listing" else key
    return re.split("[/@#]", part, maxsplit=1)[0]


class _Times:
    """Wall seconds of the items of a stage."""

    def __init__(self, stage: Stage, taken: Sequence[Span], yields: Yields, waited: Mapping[str, float]) -> None:
        seconds: dict[str, float] = defaultdict(float)
        for span in taken:
            seconds[entity(stage, span.key)] += span.seconds
        active = {key: max(0.0, value - waited.get(key, 0.0)) for key, value in seconds.items()}
        elapsed = max(_covered(taken), 1e-9)
        self.seconds = mean_of(yields.by_repository(stage, seconds))
        self.active = mean_of(yields.by_repository(stage, active))
        self.at_a_time = sum(seconds.values()) / elapsed
        self.active_at_a_time = max(sum(active.values()) / elapsed, 1e-9)


def _covered(taken: Iterable[Span]) -> float:
    """Seconds in which at least one item was in progress."""
    covered, end = 0.0, float("-inf")
    for span in sorted(taken, key=lambda one: one.started_at):
        began = span.started_at.timestamp()
        covered += max(0.0, began + span.seconds - max(began, end))
        end = max(end, began + span.seconds)
    return covered


def _calls(store: Store) -> dict[str, tuple[float, int]]:
    """Seconds in which each attempt waited for its model, and the tokens that the server knew already."""
    files = store.files("trajectories")
    if not files:
        return {}
    with duckdb.connect() as connection:
        rows = connection.execute(_CALLS, {"files": files}).fetchall()
    return {key: (seconds, int(cached)) for key, _, seconds, cached in rows}


def _table_bytes(store: Store, stage: Stage, kind: Kind) -> float:
    """Mean of one item, over all that are in the tables of the stage."""
    size, items = 0.0, set()
    for table in kind.tables:
        size += sum(Path(file).stat().st_size for file in store.files(table))
        items |= {entity(stage, key) for key in store.keys(table)}
    return size / len(items) if items else 0.0


def _published(store: Store, name: str) -> list[StageMeasure]:
    found = versions(store.root, name)
    if not found:
        return []
    newest = found[-1]
    size = sum(file.stat().st_size for file in newest.path.rglob("*") if file.is_file())
    basis = f"{newest.rows} rows of {newest.name}@{newest.version}"
    return [StageMeasure(stage="publishing", table_bytes=significant(size / newest.rows), basis=basis)]


def _of(measure: Measure, kind: Kind) -> str:
    counted = f"{measure.n} {kind.items}"
    return counted if measure.n == measure.repositories else f"{counted} of {measure.repositories} repositories"
