"""Publishes benchmarks of hierarchies: the tasks of one game with their divided reference solutions.

A task is in it when a published attempt carried its reference solution out and has an annotation that can be used.
`id` are new tasks of types that are in train, `ood` those of types that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipeline.errors import ConfigurationError
from pipeline.hierarchy import attempts
from pipeline.hierarchy.annotated import Annotated, Annotations, LeftOut, annotated
from pipeline.hierarchy.attempts import actions_of, environment_of, provenance_of
from pipeline.hierarchy.card import Words, card
from pipeline.hierarchy.columns import BENCHMARK, BENCHMARK_KEY, meanings
from pipeline.hierarchy.rows import groups_of
from pipeline.schemas import Row, to_arrow
from pipeline.snapshots import Draft, SnapshotVersion, publish
from pipeline.snapshots.attempts import VersionAttempts
from pipeline.snapshots.publishing import EXCLUDED
from pipeline.tables import Store

PREFIX = "hierarchical-"
"""Begins the name of a benchmark, which ends with that of its game."""
SPLITS: Mapping[str, str] = {"train": "train", "seen": "id", "unseen": "ood"}
"""Split of a benchmark by that of the game."""
MAX_SCORE = 1.0
_ABOUT = (
    "Each row is one task of a text game. Policies are asked to solve the tasks of `id` (new tasks of types that are "
    "in train) and of `ood` (types that are not); what they learn from is theirs to choose, apart from those.",
    "Every task was solved by its reference solution, whose sub-goals, actions and progress stand in `subgoals`.",
)
_HINTS = (
    "A task is begun by `package`, `package_version`, `task_type` and `variation_id`.",
    "An attempt has `max_steps` actions. It is solved with `max_score`; its last score is told beside that.",
    "Strict pass@1 counts the first attempt at each task and no other.",
    "`tasks_id.txt` and `tasks_ood.txt` list the tasks: task_id, task_type and variation_id, with tabs between them.",
)


@dataclass(frozen=True)
class BenchmarkPublication:
    """What is to be published."""

    environment: str
    """Name of the game."""
    parent: str
    """Version of attempts in games, e.g. `games@v0001`."""
    annotators: tuple[str, ...]
    """Whose annotations are used: of each attempt the first one that can be."""
    max_steps: int
    """Actions that an attempt may have."""

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.environment}"


class _Listed(NamedTuple):
    task_id: str
    task_type: str
    variation_id: str
    split: str


def publish_benchmark(
    store: Store, data: Path, publication: BenchmarkPublication, *, code_commit: str | None, run_id: str | None
) -> SnapshotVersion:
    """The version of the benchmark of one game, new or already there.

    `store` has the annotations, `data` is where versions are. Raises ConfigurationError where the parent has no solved
    and annotated task of the game; SnapshotDamaged, TableDamaged.
    """
    version = VersionAttempts(data, publication.parent, attempts.COLUMNS)
    annotations = Annotations(store, publication.annotators)
    listed, left_out = _listed(version, annotations, publication.environment)
    if not listed:
        raise ConfigurationError(
            f"{version.reference} has no attempt that carries out a reference solution of {publication.environment} "
            f"and has an annotation by {' or '.join(publication.annotators)} that can be used; collect and annotate "
            "expert attempts first"
        )
    return publish(
        data,
        publication.name,
        _rows(version, annotations, publication),
        schema_version=BENCHMARK.version,
        parents=[version.reference],
        code_commit=code_commit,
        run_id=run_id,
        filters={"annotators": list(publication.annotators), "max_steps": publication.max_steps},
        excluded=[_excluded(left_out)],
        summary={"tasks": len(listed)},
        describe=partial(_documents, listed),
        key=BENCHMARK_KEY,
        group_rows=BENCHMARK.rows_per_group,
    )


def _solved(version: VersionAttempts, annotations: Annotations, environment: str) -> Iterator[Annotated | LeftOut]:
    """The first attempt at each task of the game that carried out its reference solution."""

    def expert(row: Row) -> bool:
        if environment_of(row) != environment or not row["verified"]:
            return False
        # Chance may have solved it before the end of the solution.
        actions, solution = actions_of(row), row["solution"]
        assert isinstance(solution, list)
        return actions == solution[: len(actions)]

    seen: set[str] = set()
    for one in annotated([version], annotations, expert):
        if isinstance(one, LeftOut):
            yield one
        elif one.facts.task_id not in seen:
            seen.add(one.facts.task_id)
            yield one


def _listed(
    version: VersionAttempts, annotations: Annotations, environment: str
) -> tuple[list[_Listed], list[LeftOut]]:
    listed, left_out = list[_Listed](), list[LeftOut]()
    for one in _solved(version, annotations, environment):
        if isinstance(one, LeftOut):
            left_out.append(one)
        else:
            facts = one.facts
            listed.append(_Listed(facts.task_id, facts.task_type, facts.variation_id, SPLITS[facts.split]))
    return listed, left_out


def _rows(version: VersionAttempts, annotations: Annotations, publication: BenchmarkPublication) -> Iterator[pa.Table]:
    for one in _solved(version, annotations, publication.environment):
        if not isinstance(one, LeftOut):
            yield to_arrow(BENCHMARK, [_row(one, publication.max_steps)])


def _row(one: Annotated, max_steps: int) -> Row:
    told, facts = provenance_of(one.row), one.facts
    return {
        **facts.model_dump(include={"env", "task_id", "task_type", "variation_id", "trajectory_id"}),
        "split": SPLITS[facts.split],
        "difficulty": one.row["difficulty"],
        "gold_steps": len(one.path.steps),
        "depth": int(told["depth"]) if "depth" in told else None,
        "task_description": one.path.task,
        "observation": one.path.steps[0].observation,
        "solution": one.row["solution"],
        "subgoals": [
            {"subgoal": group.name, "actions": group.actions, "progress": list(group.progress)}
            for group in groups_of(one.path, one.annotation)
        ],
        "max_steps": max_steps,
        "max_score": MAX_SCORE,
        "annotator": one.annotation.annotator,
        "package": told["package"],
        "package_version": told["version"],
        "license": one.row["license"],
    }


def _excluded(left_out: list[LeftOut]) -> pa.Table:
    rows = [dict(zip(EXCLUDED.names, (*one, None), strict=True)) for one in sorted(left_out)]
    return pa.Table.from_pylist(rows, schema=EXCLUDED)


def _documents(listed: list[_Listed], draft: Draft) -> Mapping[str, str | bytes]:
    words = Words(
        title="Benchmark of hierarchical agents",
        about=_ABOUT,
        hints=_HINTS,
        meanings=meanings(BENCHMARK.name),
        counted=("split", "difficulty"),
        distinct=("task_type",),
    )
    lines = {split: sorted("\t".join(one[:3]) for one in listed if one.split == split) for split in ("id", "ood")}
    lists = {f"tasks_{split}.txt": "".join(f"{line}\n" for line in found) for split, found in lines.items()}
    return {"README.md": card(draft, words), **lists}
