"""Divides published attempts into sub-goals, by rules or by asking a model, and keeps what can be said against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.batch import Failure, Item, ItemsOnDemand, Outcome, StageReport
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.hierarchy import rules
from pipeline.hierarchy.annotated import annotation_row
from pipeline.hierarchy.attempts import environment_of, path_of, path_sha256
from pipeline.hierarchy.checks import faults
from pipeline.hierarchy.path import Annotation, Path
from pipeline.schemas import Row
from pipeline.snapshots.attempts import Place, VersionAttempts
from pipeline.stages.options import Options, over_items
from pipeline.tables import Store

_DIGITS = 12


@dataclass(frozen=True)
class Annotator:
    """Who divides paths."""

    name_of: Callable[[str], str]
    """What it signs its annotations of paths in an environment with: `name@version` of rules, or a model and the hash
    of its prompts."""
    annotate: Callable[[Path], Annotation]
    """May raise ItemRejected, and what a ChatModel raises."""


RULES = Annotator(rules.name_of, rules.annotate)
"""The one that asks no model."""


class _Attempt(NamedTuple):
    """One attempt of a version, and where its row is."""

    version: VersionAttempts
    place: Place
    trajectory_id: str
    environment: str
    path_sha256: str | None
    """None for one that has no path."""


def annotate_all(
    store: Store, versions: Sequence[VersionAttempts], annotator: Annotator, options: Options
) -> StageReport:
    """One row in `annotations` for each attempt of the versions, which have the columns of hierarchy/attempts.py.

    What checks.py says against an annotation is kept beside it. An attempt that was published with another text since
    is annotated anew. Raises ConfigurationError for an annotator that signs otherwise than it says, SnapshotDamaged.
    """
    attempts = _attempts(versions)
    keys = list(attempts)

    def item(number: int) -> Item[_Attempt]:
        attempt = attempts[keys[number]]
        return Item(f"{keys[number]}/{annotator.name_of(attempt.environment)}", attempt)

    def work(attempt: _Attempt) -> Outcome:
        path = path_of(attempt.version.at(attempt.place))
        annotation = annotator.annotate(path)
        named = _named(attempt, annotator)
        if annotation.annotator != named["annotator"]:
            raise ConfigurationError(f"the annotator {named['annotator']} signs as {annotation.annotator}")
        row = named | annotation_row(annotation) | {"faults": list(faults(path, annotation))}
        return Outcome({"annotations": [row]})

    def failed_rows(attempt: _Attempt, failure: Failure) -> Mapping[str, Sequence[Row]]:
        del failure
        return {"annotations": [_named(attempt, annotator)]}

    items = ItemsOnDemand(len(keys), item)
    return over_items("annotation", items, work, store=store, failed_rows=failed_rows, options=options)


def _attempts(versions: Sequence[VersionAttempts]) -> dict[str, _Attempt]:
    """By trajectory and path: one that is in two versions is one, unless it reads otherwise."""
    found: dict[str, _Attempt] = {}
    for version in versions:
        for place, row in version:
            trajectory_id, sha256 = str(row["trajectory_id"]), _path_sha256(row)
            key = f"{trajectory_id}/{(sha256 or 'none')[:_DIGITS]}"
            found.setdefault(key, _Attempt(version, place, trajectory_id, environment_of(row), sha256))
    return found


def _path_sha256(row: Row) -> str | None:
    try:
        return path_sha256(path_of(row))
    except ItemRejected:
        return None


def _named(attempt: _Attempt, annotator: Annotator) -> Row:
    return {
        "trajectory_id": attempt.trajectory_id,
        "annotator": annotator.name_of(attempt.environment),
        "path_sha256": attempt.path_sha256,
        "environment": attempt.environment,
    }
