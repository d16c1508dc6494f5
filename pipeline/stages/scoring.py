"""Scores fetched repositories and decides which are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.rows import checkout_of, repository_of, score_row
from pipeline.schemas import Row, to_rows
from pipeline.scoring import Scorer
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store
from pipeline.types import Checkout, Repository


class Fetched(NamedTuple):
    """A repository whose tree is in the data folder."""

    repository: Repository
    checkout: Checkout


def fetched(store: Store, repositories: Sequence[Repository]) -> list[Fetched]:
    """Those of `repositories` that were fetched, in the given order."""
    rows = {row["repository_id"]: row for row in to_rows(store.current("repositories")) if row["tree_sha256"]}
    known = [one for one in repositories if one.repository_id in rows]
    return [Fetched(repository_of(rows[one.repository_id]), checkout_of(rows[one.repository_id])) for one in known]


def score(store: Store, items: Sequence[Fetched], trees: Path, scorer: Scorer, options: Options) -> StageReport:
    """One row in `scores` for each; a scorer of another name or version scores anew."""

    def work(item: Fetched) -> Outcome:
        tree = trees / f"{item.checkout.tree_sha256}.tar"
        return Outcome({"scores": [score_row(scorer.score(item.repository, item.checkout, tree))]})

    def failed_rows(item: Fetched, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"scores": [{"repository_id": item.repository.repository_id, "scorer": scorer.name}]}

    batch = [Item(f"{item.repository.repository_id}/{scorer.name}", item) for item in items]
    return over_items("score", batch, work, store=store, failed_rows=failed_rows, options=options)


def kept(store: Store, items: Sequence[Fetched], scorer: Scorer) -> list[Fetched]:
    """Those that this scorer keeps."""
    good = {
        row["repository_id"] for row in to_rows(store.current("scores")) if row["kept"] and row["scorer"] == scorer.name
    }
    return [item for item in items if item.repository.repository_id in good]
