"""Are rows that a verifier passed better to learn from than rows that a language model took for passed?

Both kinds come from the same attempts of models that have a verdict and an opinion ([rollout] judge), so that nothing
but who accepted them tells them apart; a row that both accept may be in both. As many rows of each, at several sizes,
the smaller ones within the larger ones. In TerminalTraj: 1000, 2000, 4000 and 8000.

Attempts come from the working tables, those too that were never published. Splits are those of published rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from pydantic import Field, JsonValue

from pipeline.chosen import chosen_rows
from pipeline.curation.splits import split_of
from pipeline.errors import ConfigurationError
from pipeline.joined_rows import JudgedRow, judged_rows
from pipeline.schemas import to_rows
from training.learned_rows import FOLDER, LearnedRow, keep_rows
from training.studies.figures import ArmResult, points
from training.studies.material import SPLIT, Material, first, in_turn
from training.studies.study import Arm, Lesson, Study, StudyConfig

POOL = "judged-attempts"


class VerifiersConfig(StudyConfig):
    """Sizes."""

    sizes: tuple[int, ...] = Field(default=(4, 8, 16, 32), min_length=1)
    """Rows of the arms."""
    judge: str | None = None
    """Name of the model whose opinions count; None where only one has any."""


class Verifiers(Study):
    """See above."""

    name: ClassVar[str] = "verifiers"
    about: ClassVar[str] = (
        "rows that a verifier passed against rows that a language model took for passed, at four sizes"
    )

    def __init__(self, config: VerifiersConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Verifiers:
        return cls(VerifiersConfig.model_validate(told))

    @property
    def config(self) -> VerifiersConfig:
        return self._config

    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        opinions = _opinions(material, self._config.judge)
        pool = [one for one in _pool(material) if one.trajectory_id in opinions]
        verdicts = {one.trajectory_id: one.outcome for one in pool}
        reference = keep_rows(material.data, POOL, _learned(material, pool), material.code_commit)
        version = material.version(reference, material.data / FOLDER)
        rows = material.rows(version)
        accepted = {
            "code": [row for row in rows if verdicts[row.trajectory_id] == "passed"],
            "judge": [row for row in rows if opinions[row.trajectory_id] == "passed"],
        }
        found = [Arm("base", None)]
        orders = {kind: in_turn(chosen, seed, lambda row: row.family) for kind, chosen in accepted.items()}
        for size in sorted(self._config.sizes):
            for kind, order in orders.items():
                what = f"verifiers.sizes: rows that {kind} accepts"
                found.append(Arm(f"{kind}-{size}", Lesson(version, first(order, size, what))))
        return found

    @classmethod
    def findings(cls, environments: Mapping[str, Mapping[str, ArmResult]]) -> dict[str, JsonValue]:
        """By how many points code-verified rows are better at each size."""
        return {
            f"{environment}: code - judge, points": {
                name.removeprefix("code-"): _less(arms, name, name.replace("code-", "judge-"))
                for name in arms
                if name.startswith("code-")
            }
            for environment, arms in environments.items()
        }


def _less(arms: Mapping[str, ArmResult], one: str, other: str) -> float | None:
    a, b = points(arms.get(one)), points(arms.get(other))
    return None if a is None or b is None else round(a - b, 1)


def _opinions(material: Material, judge: str | None) -> dict[str, str]:
    """Outcome by trajectory, of one model and wording. Raises ConfigurationError where there are several."""
    columns = ["trajectory_id", "model", "prompt_sha256", "outcome"]
    rows = [row for row in to_rows(material.store.current("judgements", columns)) if row["outcome"] != "error"]
    chosen = [row for row in rows if row["outcome"] is not None and judge in (None, row["model"])]
    judges = sorted({(str(row["model"]), str(row["prompt_sha256"])[:8]) for row in chosen})
    if len(judges) != 1:
        known = ", ".join(f"{model} (wording {wording})" for model, wording in judges) or "none"
        raise ConfigurationError(
            f"verifiers.judge: opinions of one model with one wording are needed, there are {known}; `[rollout] judge` "
            "makes them"
        )
    return {str(row["trajectory_id"]): str(row["outcome"]) for row in chosen}


def _pool(material: Material) -> list[JudgedRow]:
    """Attempts of models at instances that may be learned from."""
    chosen = {str(row["instance_id"]) for row in chosen_rows(material.store)}
    names = _full_names(material)
    found = []
    for one in judged_rows(material.store):
        instance = one.instance
        split = split_of(names[instance.repository_id], instance.domain, instance.family, material.splits)
        if instance.instance_id in chosen and split == SPLIT:
            found.append(one)
    return found


def _learned(material: Material, pool: Iterable[JudgedRow]) -> Iterable[LearnedRow]:
    names = _full_names(material)
    for one in pool:
        instance, attempt = one.instance, one.trajectory
        if attempt.messages:
            yield LearnedRow(
                one.trajectory_id,
                instance.instance_id,
                instance.repository_id,
                instance.instruction,
                names[instance.repository_id],
                instance.family,
                instance.domain,
                instance.difficulty,
                attempt.messages,
            )


def _full_names(material: Material) -> dict[str, str]:
    rows = to_rows(material.store.current("repositories", ["repository_id", "full_name"]))
    return {str(row["repository_id"]): str(row["full_name"]) for row in rows}
