"""Publishes the five data sets of hierarchies, made of the attempts of other versions and the annotations of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from pipeline.dataset_card.content import Table
from pipeline.errors import ConfigurationError
from pipeline.hierarchy import attempts, columns
from pipeline.hierarchy.agreement import Agreement
from pipeline.hierarchy.annotated import Annotations, LeftOut, annotated
from pipeline.hierarchy.card import Words, card
from pipeline.hierarchy.prompts import PLANNER_EXECUTOR, STEP_HRL
from pipeline.hierarchy.rows import rows_of
from pipeline.prompts import prompt
from pipeline.schemas import to_arrow
from pipeline.snapshots import Draft, SnapshotVersion, publish
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.snapshots.publishing import EXCLUDED
from pipeline.tables import Store
from pipeline.token_counts import TokenCounter

_ABOUT = {
    "system1": "Each row is one question to the planner of Multi² and its answer, the next sub-goal.",
    "system2": "Each row is one step of the executor of Multi²: it reads the sub-goal and what is seen, and acts.",
    "step_high": "Each row is one question to the high level of STEP-HRL and its answer, the next sub-task.",
    "step_low": "Each row is one step of the low level of STEP-HRL, which reads sub-task, progress and what is seen.",
    "step_progress": "Each row is one summary of the progress policy of STEP-HRL, written after an action.",
}
_HOW = (
    "Attempts of agents in text games and in a terminal were divided into sub-goals after they were made. Every prompt "
    "is one user message and stands alone; there is no system message. Where a target is an action, it ends with the "
    "flag that says whether the sub-goal is reached by it."
)
_HINTS = (
    "Failed attempts are here too, for methods that learn from both. For imitation keep the rows with `verified`.",
    "Failed attempts were divided like others: there a reward of 1 at the end of a sub-goal does not say that it was "
    "reached.",
    "`source` is `expert` for the reference solution, else the collection of the attempt, or its agent without one.",
    "Train on `train` alone. Games: `seen` has new tasks of types that are in train, `unseen` other types. Terminal: "
    "`test` has neither repositories nor families of tasks in common with train, `validation` one of both.",
    "Rows of one attempt follow each other by `step_idx` under one `trajectory_id`.",
    "In the terminal an observation begins with the exit code of the command before it.",
)


@dataclass(frozen=True)
class HierarchicalPublication:
    """What is to be published."""

    parents: tuple[str, ...]
    """Versions of attempts, e.g. `games@v0001` and `terminal@v0003`."""
    annotators: tuple[str, ...]
    """Whose annotations are used: of each attempt the first one that can be."""
    tokens: TokenCounter | None = None
    """Counts the tokens of prompts and targets."""
    agreement: Agreement | None = None
    """How far two annotators agree, for the card."""


@dataclass(frozen=True)
class _Chosen:
    """What was found before any row is made."""

    used: Counter[str]
    """Attempts by environment."""
    left_out: Sequence[LeftOut]
    licenses: frozenset[str]


def publish_hierarchical(
    store: Store,
    data: Path,
    publication: HierarchicalPublication,
    *,
    code_commit: str | None,
    run_id: str | None,
    names: Sequence[str] = tuple(columns.DATASETS),
) -> dict[str, SnapshotVersion]:
    """The versions of these data sets, all five by default, by name, new or already there.

    `store` has the annotations, `data` is where versions are. One attempt is in memory at a time. Raises
    ConfigurationError for a parent that there is not, and where no attempt can be used; SnapshotDamaged, TableDamaged.
    """
    versions = [VersionAttempts(data, reference, attempts.COLUMNS) for reference in publication.parents]
    annotations = Annotations(store, publication.annotators)
    chosen = _choose(versions, annotations)
    found = {}
    for name in names:
        schema = columns.DATASETS[name]
        found[name] = publish(
            data,
            name,
            _rows(name, versions, annotations, publication.tokens),
            schema_version=schema.version,
            parents=[version.reference for version in versions],
            code_commit=code_commit,
            run_id=run_id,
            filters=_filters(publication, name),
            excluded=[_excluded(chosen.left_out)],
            summary=_summary(chosen),
            describe=partial(_documents, publication, chosen),
            key=columns.KEY,
            group_rows=schema.rows_per_group,
        )
    return found


def _choose(versions: Sequence[VersionAttempts], annotations: Annotations) -> _Chosen:
    used, left_out, licenses = Counter[str](), list[LeftOut](), set[str]()
    for one in annotated(versions, annotations):
        if isinstance(one, LeftOut):
            left_out.append(one)
        else:
            used[one.facts.env] += 1
            licenses.add(str(one.row["license"]))
    if not used:
        names, annotators = ", ".join(one.reference for one in versions), " or ".join(annotations.annotators)
        raise ConfigurationError(
            f"none of the {len(left_out)} attempts of {names} has an annotation by {annotators} that can be used; "
            "annotate them first"
        )
    return _Chosen(used, left_out, frozenset(licenses))


def _rows(
    name: str, versions: Sequence[VersionAttempts], annotations: Annotations, tokens: TokenCounter | None
) -> Iterator[pa.Table]:
    for one in annotated(versions, annotations):
        if not isinstance(one, LeftOut):
            rows = rows_of(name, one.path, one.annotation, one.facts, tokens)
            yield to_arrow(columns.DATASETS[name], rows)


def _filters(publication: HierarchicalPublication, name: str) -> dict[str, object]:
    files = PLANNER_EXECUTOR if name.startswith("system") else STEP_HRL
    return {
        "annotators": list(publication.annotators),
        "tokenizer": publication.tokens.tokenizer_id if publication.tokens else None,
        "prompts": {file: prompt(file).sha256 for file in files},
    }


def _summary(chosen: _Chosen) -> dict[str, object]:
    steps = Counter(one.step for one in chosen.left_out)
    return {"attempts": dict(sorted(chosen.used.items())), "left_out": dict(sorted(steps.items()))}


def _excluded(left_out: Sequence[LeftOut]) -> pa.Table:
    rows = [dict(zip(EXCLUDED.names, (*one, None), strict=True)) for one in sorted(left_out)]
    return pa.Table.from_pylist(rows, schema=EXCLUDED)


def _documents(publication: HierarchicalPublication, chosen: _Chosen, draft: Draft) -> Mapping[str, str | bytes]:
    steps = Counter(one.step for one in chosen.left_out)
    annotation: list[tuple[str, int]] = [("attempts with rows here", chosen.used.total())]
    annotation += [(f"left out: {step}", count) for step, count in sorted(steps.items())]
    tables = [Table("Annotated attempts", ("attempts", "how many"), tuple(annotation))]
    if publication.agreement is not None:
        told = publication.agreement.model_dump()
        rows = tuple((name, value if isinstance(value, int) else str(value)) for name, value in told.items())
        tables.append(Table("Agreement of two annotators", ("what was compared", "value"), rows))
    words = Words(
        title="Hierarchical trajectories",
        about=(_ABOUT[draft.name], _HOW),
        hints=_HINTS,
        meanings=columns.meanings(draft.name),
        counted=("env", "split", "source", "verified", "annotator"),
        distinct=("trajectory_id", "task_id"),
        tables=tuple(tables),
        licenses=chosen.licenses,
    )
    return {"README.md": card(draft, words)}
