"""Publishes what curation keeps of the verified attempts as the next version of the data set, when it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pipeline.candidates import Looked
from pipeline.curation.decisions import DatasetConfig, Decisions
from pipeline.curation.scrubbing import Finding, scrub_row
from pipeline.curation.splits import SplitConfig, split_of
from pipeline.curation_report import findings_by_kind
from pipeline.dataset_card import CardFacts, documents, facts_of
from pipeline.funnel import funnel
from pipeline.joined_rows import VerifiedRow, verified
from pipeline.replay_rate import replay_rate
from pipeline.schemas import TERMINAL, Row, to_arrow, to_rows
from pipeline.snapshots import Draft, SnapshotVersion, publish
from pipeline.snapshots.publishing import EXCLUDED
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store
from pipeline.token_counts import TokenCounter


@dataclass(frozen=True)
class Publication:
    """What is to be published, and by which rules it was chosen."""

    name: str
    decisions: Decisions
    looked: Looked
    dataset: DatasetConfig
    splits: SplitConfig
    tokens: TokenCounter | None = None
    """Counts the tokens of rows."""

    @property
    def filters(self) -> Mapping[str, object]:
        """For the manifest."""
        return {
            "rules": self.looked.rules,
            "benchmark_sha256": self.looked.benchmark_sha256,
            "licences": list(self.dataset.licences),
            "denied": [one.model_dump(mode="json") for one in self.dataset.deny],
            "splits": self.splits.model_dump(),
            "tokenizer": self.tokens.tokenizer_id if self.tokens else None,
        }


def publish_kept(
    store: Store, publication: Publication, *, code_commit: str | None, run_id: str | None
) -> SnapshotVersion | None:
    """The version that holds what is kept today, new or already there; None when nothing is kept.

    Rows are scrubbed on their way, one in memory at a time. Raises RowMissing and TableDamaged.
    """
    decisions = publication.decisions
    if not decisions.kept:
        return None
    replays = replay_rate(store)
    return publish(
        store.root,
        publication.name,
        _rows(store, publication),
        schema_version=TERMINAL.version,
        parents=(),  # it is made from the tables, not from the version before it
        code_commit=code_commit,
        run_id=run_id,
        filters=publication.filters,
        excluded=[to_excluded(decisions)],
        summary={
            "funnel": dict(funnel(store).stages()),
            "curation": [step.model_dump() for step in decisions.steps],
            "waiting_for_review": len(decisions.queue),
            "replays": replays.model_dump() if replays else None,
        },
        describe=partial(_documents, store, publication, code_commit),
    )


def to_excluded(decisions: Decisions) -> pa.Table:
    """The table of verified attempts that are not in the version."""
    columns = zip(*decisions.excluded, strict=True) if decisions.excluded else ([] for _ in EXCLUDED)
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=EXCLUDED)


def _rows(store: Store, publication: Publication) -> Iterator[pa.Table]:
    kept, findings, repeats = set(publication.decisions.kept), _Findings(store, publication.looked), _repeats(store)
    for one in verified(store):
        if one.trajectory_id not in kept:
            continue
        row = one.row
        found = findings.of(one)
        split = split_of(str(row["full_name"]), str(row["domain"]), str(row["family"]), publication.splits)
        scrubbed = scrub_row(row, found)
        added: Row = {
            "split": split,
            "scrubbed": sum(finding.count for finding in found if finding.placeholder),
            "n_repeats": 1 + repeats[one.trajectory_id, row["outcome"]],
            **_counted(scrubbed, publication.tokens),
        }
        yield to_arrow(TERMINAL, [scrubbed | added])


def _counted(row: Row, tokens: TokenCounter | None) -> Row:
    if tokens is None:
        return {}
    messages = row["messages"]
    assert isinstance(messages, list)  # every row has them
    return {"n_message_tokens": tokens.count_messages(messages), "tokenizer_id": tokens.tokenizer_id}


class _Findings:
    """What was found in each attempt, read when it is asked for."""

    def __init__(self, store: Store, looked: Looked) -> None:
        names = ("trajectory_id", "trajectory_attempt", "rules", "benchmark_sha256")
        self._stored = StoredRows(store, "curations", names)
        self._places = {
            (row["trajectory_id"], row["trajectory_attempt"]): number
            for number, row in enumerate(to_rows(self._stored.light))
            if (row["rules"], row["benchmark_sha256"]) == (looked.rules, looked.benchmark_sha256)
        }

    def of(self, one: VerifiedRow) -> Sequence[Finding]:
        found = self._stored.row(self._places[one.trajectory_id, one.attempt])["findings"]
        assert isinstance(found, list)  # decisions keep nothing that was not looked through
        return [Finding.model_validate(finding) for finding in found]


def _repeats(store: Store) -> Counter[tuple[object, object]]:
    """How often replays came to a verdict, by attempt and verdict."""
    rows = to_rows(store.current("replays", ["trajectory_id", "replayed"]))
    return Counter((row["trajectory_id"], row["replayed"]) for row in rows)


def _documents(
    store: Store, publication: Publication, code_commit: str | None, draft: Draft
) -> Mapping[str, str | bytes]:
    """The card. The working tables are counted only here, when there is a version to describe."""
    known = CardFacts(
        code_commit=code_commit,
        schema_version=TERMINAL.version,
        licences=publication.dataset.licences,
        steps=publication.decisions.steps,
        waiting=len(publication.decisions.queue),
        splits=publication.splits,
        compared=publication.looked.benchmark_sha256 is not None,
        by_finding=findings_by_kind(store, publication.looked, publication.decisions.kept),
    )
    return documents(draft, facts_of(store, known))
