"""Attempts of published versions together with the annotations of them: what data sets of hierarchies are made of.

An annotation belongs to a path, not only to an attempt: what was published otherwise since is not annotated yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipeline.errors import ItemRejected
from pipeline.hierarchy.attempts import AttemptFacts, facts_of, path_of, path_sha256
from pipeline.hierarchy.path import Annotation, Path, SubTask
from pipeline.schemas import Row, to_rows
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.stored_rows import StoredRows
from pipeline.tables import Store

NOT_ANNOTATED = "not_annotated"
ANNOTATION_FAILED = "annotation_failed"
FAULTS = "annotation_faults"


class Annotated(NamedTuple):
    """An attempt that rows can be made of."""

    row: Row
    path: Path
    annotation: Annotation
    facts: AttemptFacts


class LeftOut(NamedTuple):
    """An attempt that gives no rows."""

    trajectory_id: str
    step: str
    """NOT_ANNOTATED, ANNOTATION_FAILED, FAULTS, or why it has no path."""
    reason: str


class Annotations:
    """What some annotators said, as the working table has it now."""

    def __init__(self, store: Store, annotators: Sequence[str]) -> None:
        """Holds ids and failures of all rows. Of the `annotators` the first one that can be used counts.

        Raises TableDamaged.
        """
        self.annotators = tuple(annotators)
        names = ("trajectory_id", "path_sha256", "annotator", "failure_class", "reason", "faults")
        self._stored = StoredRows(store, "annotations", names)
        self._light = to_rows(self._stored.light.drop_columns(["faults"]))
        self._places = {
            (row["trajectory_id"], row["path_sha256"], row["annotator"]): number
            for number, row in enumerate(self._light)
        }

    def of(self, trajectory_id: str, path: Path) -> Annotation | LeftOut:
        """Of the path of an attempt, or why there is none that can be used. Raises TableDamaged."""
        sha256 = path_sha256(path)
        left = LeftOut(trajectory_id, NOT_ANNOTATED, f"{' or '.join(self.annotators)} was not asked about it")
        for annotator in self.annotators:
            number = self._places.get((trajectory_id, sha256, annotator))
            if number is None:
                continue
            told, faults = self._light[number], self._stored.light.column("faults")[number].as_py()
            if told["failure_class"]:
                left = LeftOut(trajectory_id, ANNOTATION_FAILED, f"{told['failure_class']}: {told['reason']}")
            elif faults:
                left = LeftOut(trajectory_id, FAULTS, "; ".join(faults))
            else:
                return annotation_of(self._stored.row(number))
        return left


def annotated(
    versions: Sequence[VersionAttempts], annotations: Annotations, wanted: Callable[[Row], bool] = lambda _: True
) -> Iterator[Annotated | LeftOut]:
    """Each attempt of the versions whose row is wanted, in their order, one in memory at a time.

    Raises SnapshotDamaged and TableDamaged.
    """
    for version in versions:
        for _, row in version:
            if not wanted(row):
                continue
            trajectory_id = str(row["trajectory_id"])
            try:
                path = path_of(row)
            except ItemRejected as error:
                yield LeftOut(trajectory_id, error.failure_class, error.reason)
                continue
            found = annotations.of(trajectory_id, path)
            yield found if isinstance(found, LeftOut) else Annotated(row, path, found, facts_of(row, path))


def annotation_row(annotation: Annotation) -> Row:
    """The columns that hold an annotation."""
    return annotation.model_dump(mode="json")


def annotation_of(row: Row) -> Annotation:
    """The annotation that a row holds."""
    subtasks, progress = row["subtasks"], row["progress"]
    assert isinstance(subtasks, list) and isinstance(progress, list)
    return Annotation(
        annotator=str(row["annotator"]),
        subtasks=tuple(SubTask.model_validate(one) for one in subtasks),
        progress=tuple(progress),
    )
