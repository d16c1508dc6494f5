"""Builds an image for each kept repository: its own Dockerfile first, then the template of its language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.batch import Failure, Item, Outcome, StageReport
from pipeline.dockerfiles import candidates
from pipeline.errors import ItemRejected
from pipeline.recipes import Toolchain
from pipeline.rows import build_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.stages.scoring import Fetched
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE
from sandbox.building.images import ImageBuilder
from sandbox.types import BuildLimits


class Built(NamedTuple):
    """A repository with a working image."""

    fetched: Fetched
    image_digest: str


def build(
    store: Store,
    items: Sequence[Fetched],
    trees: Path,
    builder: ImageBuilder,
    toolchain: Toolchain,
    limits: BuildLimits,
    options: Options,
) -> StageReport:
    """A row in `image_builds` for each attempt; attempts end with the first image that is built."""

    def work(item: Fetched) -> Outcome:
        repository = item.repository
        rows: list[Row] = []
        for candidate in candidates(repository, trees / f"{item.checkout.tree_sha256}.tar", toolchain):
            outcome = builder.build(candidate.spec, limits)
            rows.append(build_row(repository.repository_id, candidate.strategy, candidate.spec, outcome))
            if outcome.status == "built":
                return Outcome({"image_builds": rows})
            if outcome.failure_class == INFRASTRUCTURE:
                break  # the next strategy would meet the same fault, and its success would hide this one
        if not rows:
            raise ItemRejected("no_strategy", f"no Dockerfile and no template for {repository.language}")
        last = rows[-1]
        failure = Failure(failure_class=str(last["failure_class"]), reason=str(last["reason"]))
        return Outcome({"image_builds": rows}, failure)

    def failed_rows(item: Fetched, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"image_builds": [{"repository_id": item.repository.repository_id, "status": "failed"}]}

    batch = [Item(item.repository.repository_id, item) for item in items]
    return over_items("build", batch, work, store=store, failed_rows=failed_rows, options=options)


def built(store: Store, items: Sequence[Fetched]) -> list[Built]:
    """Those of `items` that have an image, in the given order."""
    digests = {
        row["repository_id"]: str(row["image_digest"])
        for row in to_rows(store.current("image_builds"))
        if row["status"] == "built"
    }
    return [
        Built(item, digests[item.repository.repository_id])
        for item in items
        if item.repository.repository_id in digests
    ]
