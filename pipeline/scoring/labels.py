"""What builds say of repositories: 1 when the first attempt gave a usable image, 0 when it failed of itself.

What says nothing of the repository is no label: faults of this machine, the network or our policy, images that only
another builder can make, and whatever has no name. Features are not here, and neither is training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field

from pipeline.image_report import NOT_THE_REPOSITORY, UNKNOWN
from pipeline.types import CONTEXT, TASKS, Record, Repository

NO_LABEL = frozenset({*NOT_THE_REPOSITORY, UNKNOWN})
"""Failure classes of a first attempt that say nothing of the repository."""


class Labelled(Record):
    """One repository that was built, as the training of a score model takes it."""

    repository_id: str
    owner: str
    """Who it belongs to, see `owner_of`: all rows of one owner are on one side of every split."""
    label: bool
    features: dict[str, float]
    time: str = ""
    """When it was built or published, as text that sorts; the newest ones are held out. Empty where nobody knows."""
    propensity: float = Field(default=1.0, gt=0.0, le=1.0)
    """How likely it was to be built at all, given its score then."""
    language: str = "unknown"
    domain: str = "general"
    stars: float | None = None


def label_of(first: Mapping[str, object]) -> bool | None:
    """The label that a repository's first row in `image_builds` gives; None for none."""
    if first.get("repairs"):
        return None
    if first.get("status") == "built":
        return bool(first["smoke_ok"]) if first.get("smoke_ok") is not None else None
    failure = first.get("failure_class")
    return None if failure is None or failure in NO_LABEL else False


def owner_of(repository: Repository) -> str:
    """The owner of `owner/name`. A registry's packages have no owner in their name: each is one, with its scope."""
    head, _, tail = repository.full_name.partition("/")
    return head if repository.source not in ("registry", "local") else f"{head}/{tail.partition('/')[0]}"


def first_attempts(rows: Iterable[Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """The first row of each repository, in a table whose rows of one repository stand in the order of its attempts."""
    found: dict[str, Mapping[str, object]] = {}
    for row in rows:
        found.setdefault(str(row["repository_id"]), row)
    return found


def labels(
    repositories: Iterable[Repository], builds: Iterable[Mapping[str, object]]
) -> dict[str, tuple[bool, Mapping[str, object]]]:
    """Label and first build row by repository id; our own material and task folders have none."""
    first = first_attempts(builds)
    found = {}
    for repository in repositories:
        row = first.get(repository.repository_id)
        if row is None or repository.source in (CONTEXT, TASKS):
            continue
        if (label := label_of(row)) is not None:
            found[repository.repository_id] = (label, row)
    return found
