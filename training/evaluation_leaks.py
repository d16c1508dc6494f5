"""What an evaluation must leave out: instances that the model was trained on, or that come too near to those.

The rule is that of pipeline/curation/decontamination.py, over instructions alone, since of training nothing else is
kept: what it drops is left out, what it would show to somebody is evaluated and told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from pipeline.curation.benchmarks import BenchmarkTask
from pipeline.curation.decontamination import BOILERPLATE_TASKS, Benchmark, Ours
from pipeline.types import Record
from training.evaluation_tasks import EvaluatedTask
from training.trained_on import TrainedRow


class Leak(Record):
    """One evaluated instance beside what the model has learned from."""

    instance_id: str
    kind: Literal["same_id", "same_text", "near_duplicate", "review"]
    """`review` alone may be evaluated: it shares 13 words in a row, or unusual names of files."""
    trajectory_id: str
    """The first one of training that it is near to."""
    reason: str

    @property
    def left_out(self) -> bool:
        return self.kind != "review"


class HeldOut(Record):
    """How far what was evaluated is from what the model was trained on."""

    trained_trajectories: int
    trained_instances: int
    leaks: tuple[Leak, ...]
    same_repository: float
    """Share of the evaluated instances whose repository was in training too."""
    same_family: float
    """… whose family of tasks was."""

    @property
    def left_out(self) -> frozenset[str]:
        """Ids of the instances that must not be evaluated."""
        return frozenset(leak.instance_id for leak in self.leaks if leak.left_out)


def held_out(trained: Iterable[TrainedRow], evaluated: Sequence[EvaluatedTask]) -> HeldOut:
    """Compare what is to be evaluated with what the model was trained on; the shares are of what is not left out."""
    rows = list(trained)
    found = leaks(rows, evaluated)
    gone = {leak.instance_id for leak in found if leak.left_out}
    kept = [task for task in evaluated if task.instance_id not in gone]
    repositories, families = {row.full_name.lower() for row in rows}, {row.family for row in rows}
    count = max(1, len(kept))
    return HeldOut(
        trained_trajectories=len(rows),
        trained_instances=len({row.instance_id for row in rows}),
        leaks=tuple(found),
        same_repository=sum(task.full_name.lower() in repositories for task in kept) / count,
        same_family=sum(task.instance.family in families for task in kept) / count,
    )


def leaks(trained: Iterable[TrainedRow], evaluated: Iterable[EvaluatedTask]) -> list[Leak]:
    """At most one for each evaluated instance, the worst that can be said of it, sorted by id."""
    ids: dict[str, str] = {}
    texts: dict[str, TrainedRow] = {}
    for row in trained:
        ids.setdefault(row.instance_id, row.trajectory_id)
        texts.setdefault(_plain(row.instruction), row)
    found: list[Leak] = []
    others: list[EvaluatedTask] = []
    for task in evaluated:
        text = _plain(task.instance.instruction)
        if task.instance_id in ids:
            found.append(_leak(task, "same_id", ids[task.instance_id], "it was trained on"))
        elif text in texts:
            found.append(_leak(task, "same_text", texts[text].trajectory_id, "its instruction was trained on"))
        else:
            others.append(task)
    found += _near(list(texts.values()), others)
    return sorted(found, key=lambda leak: leak.instance_id)


def _near(trained: Sequence[TrainedRow], evaluated: Sequence[EvaluatedTask]) -> list[Leak]:
    if not trained or not evaluated:
        return []
    told = [(row.family, row.instruction) for row in trained]
    usual = _usual_paragraphs([*told, *((task.instance.family, task.instance.instruction) for task in evaluated)])
    known = [
        BenchmarkTask(name=row.trajectory_id, instruction=_own(row.instruction, usual), tests="") for row in trained
    ]
    ours = [
        Ours(
            instance_id=task.instance_id,
            repository="",
            instruction=_own(task.instance.instruction, usual),
            verifier="",
        )
        for task in evaluated
    ]
    seen = Benchmark(known).check(ours)
    return [
        _leak(task, "near_duplicate" if one.decision == "drop" else "review", one.task, one.reason)
        for task in evaluated
        if (one := seen[task.instance_id]).task is not None
    ]


def _usual_paragraphs(told: Iterable[tuple[str, str]]) -> set[str]:
    """Of (family, instruction): paragraphs that tasks of several families have, which say nothing of any one of them.

    Such a one is where the repository lies: few tasks have it, and of one repository all of them.
    """
    families: dict[str, set[str]] = {}
    for family, instruction in told:
        for paragraph in _paragraphs(instruction):
            families.setdefault(paragraph, set()).add(family)
    return {paragraph for paragraph, found in families.items() if len(found) >= BOILERPLATE_TASKS}


def _own(instruction: str, usual: set[str]) -> str:
    """The paragraphs that are not usual; all of them where nothing else would be left."""
    own = [paragraph for paragraph in _paragraphs(instruction) if paragraph not in usual]
    return "\n\n".join(own) if own else instruction


def _paragraphs(text: str) -> list[str]:
    return [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def _leak(
    task: EvaluatedTask, kind: Literal["same_id", "same_text", "near_duplicate", "review"], of: str, reason: str
) -> Leak:
    return Leak(instance_id=task.instance_id, kind=kind, trajectory_id=of, reason=reason)


def _plain(text: str) -> str:
    """Without case and spacing, which make no other task."""
    return re.sub(r"\s+", " ", text).strip().lower()
