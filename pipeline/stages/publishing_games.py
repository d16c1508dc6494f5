"""Publishes the judged attempts in games as the next version of their data set, failed ones included.

They have the columns of the data set of the terminal. A row that says the same as another one, text by text, is out,
and so are games whose licence is not among the accepted ones, or that are on the list of the denied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipeline.agents.oracle import OracleAgent
from pipeline.cards import front_matter
from pipeline.curation.decisions import DatasetConfig
from pipeline.curation.deny_list import denied
from pipeline.hierarchy.attempts import provenance_of
from pipeline.joined_rows import JUDGED, VerifiedRow, verified
from pipeline.schemas import TERMINAL, Row, to_arrow
from pipeline.snapshots import Draft, SnapshotVersion, publish
from pipeline.snapshots.publishing import EXCLUDED
from pipeline.tables import Store
from pipeline.token_counts import TokenCounter

EXPERT = OracleAgent.name
"""The agent that carries out gold paths."""


@dataclass(frozen=True)
class GamesPublication:
    """What is to be published of the games, and by which rules."""

    name: str
    dataset: DatasetConfig
    games: Sequence[str]
    """Those that are in it."""
    tokens: TokenCounter | None = None


def publish_games(
    store: Store, data: Path, publication: GamesPublication, *, code_commit: str | None, run_id: str | None
) -> SnapshotVersion | None:
    """The version with what is kept today, new or already there; None when nothing is kept.

    `store` has the tables of the games, `data` is where versions are. One row is in memory at a time. Raises
    RowMissing and TableDamaged.
    """
    attempts = sorted(
        (one for one in verified(store, JUDGED) if one.instance["generator"] in publication.games),
        key=lambda one: one.trajectory_id,
    )
    out = _refused(attempts, publication.dataset)
    out |= _copies([one for one in attempts if one.trajectory_id not in out])
    kept = [one for one in attempts if one.trajectory_id not in out]
    if not kept:
        return None
    return publish(
        data,
        publication.name,
        _rows(kept, publication.tokens),
        schema_version=TERMINAL.version,
        parents=(),
        code_commit=code_commit,
        run_id=run_id,
        filters={
            "games": sorted(publication.games),
            "licences": list(publication.dataset.licences),
            "tokenizer": publication.tokens.tokenizer_id if publication.tokens else None,
        },
        excluded=[_excluded(out)],
        summary={"judged": len(attempts), "excluded": len(out), "kept": len(kept)},
        describe=_documents,
    )


Reason = tuple[str, str, str | None]
"""Step, reason, and the attempt that it copies."""


def _refused(attempts: Sequence[VerifiedRow], dataset: DatasetConfig) -> dict[str, Reason]:
    names = ((str(one.repository["source"]), str(one.repository["full_name"])) for one in attempts)
    listed = denied(names, dataset.deny)
    found: dict[str, Reason] = {}
    for one in attempts:
        source, full_name = str(one.repository["source"]), str(one.repository["full_name"])
        if (source, full_name) in listed:
            found[one.trajectory_id] = ("denied", f"{full_name}: {listed[source, full_name].why}", None)
        elif one.repository["license"] not in dataset.licences:
            found[one.trajectory_id] = ("licence", f"{full_name}: {one.repository['license']}", None)
    return found


def _copies(attempts: Sequence[VerifiedRow]) -> dict[str, Reason]:
    """Attempts that read like another one: equal task, observations and actions. The expert's own is kept."""
    alike: dict[str, list[tuple[bool, str]]] = {}
    for one in attempts:
        row = one.row
        steps = row["steps"]
        assert isinstance(steps, list)
        text = json.dumps([row["instruction"], [[step["observation"], step["action"]] for step in steps]])
        group = alike.setdefault(hashlib.sha256(text.encode()).hexdigest(), [])
        group.append((row["agent"] != EXPERT, one.trajectory_id))
    found: dict[str, Reason] = {}
    for group in alike.values():
        (_, kept), *others = sorted(group)
        found |= {name: ("exact_copy", "equal task, observations and actions", kept) for _, name in others}
    return found


def _excluded(out: Mapping[str, Reason]) -> pa.Table:
    rows = [(name, *reason) for name, reason in sorted(out.items())]
    columns = zip(*rows, strict=True) if rows else ([] for _ in EXCLUDED)
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=EXCLUDED)


def _rows(kept: Sequence[VerifiedRow], tokens: TokenCounter | None) -> Iterator[pa.Table]:
    for one in kept:
        row = one.row
        told: Row = {"split": provenance_of(row)["split"], "scrubbed": 0, "n_repeats": 1}
        if tokens is not None:
            messages = row["messages"]
            assert isinstance(messages, list)
            told |= {"n_message_tokens": tokens.count_messages(messages), "tokenizer_id": tokens.tokenizer_id}
        yield to_arrow(TERMINAL, [row | told])


def _documents(draft: Draft) -> Mapping[str, str | bytes]:
    rows = "\n".join(f"| {name} | {count} |" for name, count in _by_split(draft).items())
    text = (
        f"# {draft.name} {draft.version}\n\n"
        "Attempts in text games, one a row, each with the verdict of the game: `verified` is true where the score was "
        "full. Failed attempts are here too, for methods that learn from both: filter by `verified` for imitation. "
        "Rewards, scores and rejected actions stand in `steps[].extra` (JSON: `reward`, `score` with 1 for full, "
        "`rejected`).\n\n"
        "`train`, `seen` (new instances of templates that are in train) and `unseen` (templates that are not) are the "
        "splits; `family` is the template and `full_name` the game.\n\n"
        f"| split | rows |\n|---|---|\n{rows}\n"
    )
    return {"README.md": front_matter(draft) + text}


def _by_split(draft: Draft) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in draft.files:
        found[str(file.split)] = found.get(str(file.split), 0) + (file.rows or 0)
    return found
