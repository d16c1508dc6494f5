"""Builds images for each kept repository until one is usable; a row for each attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.batch import BrokenOff, Failure, Item, Outcome, StageReport
from pipeline.errors import ConfigurationError, InfrastructureFailure, ItemRejected
from pipeline.image_attempts import Attempt, Workbench, attempts
from pipeline.rows import build_row
from pipeline.schemas import Row, to_rows
from pipeline.stages.options import Options, over_items
from pipeline.stages.scoring import Fetched
from pipeline.tables import Store
from pipeline.types import INFRASTRUCTURE
from sandbox.building.room import OutOfSpace
from sandbox.errors import SandboxUnavailable

NOT_USABLE = "smoke_failed"
"""The failure class of a repository whose images were built and do not work."""
MACHINE = frozenset({INFRASTRUCTURE, "disk"})
"""Failure classes of a build that are worth another run."""


class Built(NamedTuple):
    """A repository with a working image."""

    fetched: Fetched
    image_digest: str


def build(store: Store, items: Sequence[Fetched], trees: Path, bench: Workbench, options: Options) -> StageReport:
    """A row in `image_builds` for each attempt; an item is done when one of its images is usable."""

    def work(item: Fetched) -> Outcome:
        repository = item.repository
        rows: list[Row] = []
        last: Attempt | None = None
        try:
            for last in attempts(repository, trees / f"{item.checkout.tree_sha256}.tar", bench):
                rows.append(build_row(repository.repository_id, last))
            if last is None:
                raise ItemRejected("no_strategy", f"no Dockerfile and no template for {repository.language}")
            if last.usable and bench.push is not None and last.build.digest is not None:
                rows[-1]["registry_reference"] = bench.push(last.build.digest)
        except ConfigurationError:
            raise
        except Exception as error:
            if isinstance(error, SandboxUnavailable | InfrastructureFailure):
                rows.append(_interrupted(repository.repository_id, error))
            raise BrokenOff(error, {"image_builds": rows} if rows else {}) from error
        return Outcome({"image_builds": rows}, None if last.usable else _failure(rows))

    def failed_rows(item: Fetched, failure: Failure) -> Mapping[str, Sequence[Row]]:
        return {"image_builds": [{"repository_id": item.repository.repository_id, "status": "failed"}]}

    batch = [Item(item.repository.repository_id, item) for item in items]
    machines = options.machines
    return over_items("build", batch, work, store=store, failed_rows=failed_rows, options=options, machines=machines)


def _interrupted(repository_id: str, error: Exception) -> Row:
    """The row of the attempt that the machine broke off; those before it are kept as they are."""
    failure_class = "disk" if isinstance(error, OutOfSpace) else INFRASTRUCTURE
    return {"repository_id": repository_id, "status": "failed", "failure_class": failure_class, "reason": str(error)}


def _failure(rows: Sequence[Row]) -> Failure:
    """Why there is no usable image: the machine's part in it first, since another run may do without."""
    chosen = next((row for row in rows if row["failure_class"] in MACHINE), None)
    if chosen is not None:
        return Failure(failure_class=INFRASTRUCTURE, reason=f"{chosen['failure_class']}: {chosen['reason']}")
    chosen = next((row for row in rows if row["status"] == "built"), None)
    if chosen is not None:
        return Failure(failure_class=NOT_USABLE, reason=str(chosen["reason"]))
    return Failure(failure_class=str(rows[-1]["failure_class"]), reason=str(rows[-1]["reason"]))


def built(store: Store, items: Sequence[Fetched]) -> list[Built]:
    """Those of `items` that have a usable image, in the given order."""
    digests = {
        row["repository_id"]: str(row["image_digest"])
        for row in to_rows(store.current("image_builds"))
        if row["smoke_ok"]
    }
    return [
        Built(item, digests[item.repository.repository_id])
        for item in items
        if item.repository.repository_id in digests
    ]


def needed_images(store: Store) -> set[str]:
    """Ids of images that only the engine has: what is made of them could not be run again without them.

    Usable images of repositories, and those that admitted tasks have of their own.
    """
    rows = to_rows(store.current("image_builds"))
    usable = {str(row["image_digest"]) for row in rows if row["smoke_ok"] and not row["registry_reference"]}
    admitted = [row for row in to_rows(store.current("instances")) if row["admitted"]]
    # Rows of version 1 name no image of a repository: theirs is that of the task.
    return usable | {
        str(row["image_digest"])
        for row in admitted
        if row["repository_image_digest"] and row["image_digest"] != row["repository_image_digest"]
    }
