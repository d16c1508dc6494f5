"""How far does more than one attempt take a model: before training, after it, and the model that the rows are from?

pass@k at k = 1, 2, 4, 8 and 16, as far as there are attempts. In TerminalTraj the trained models rise by 20 to 30
points from k = 1 to 16 and pass their teacher at most k, where the untrained ones stay flat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field, JsonValue

from training.studies.figures import ArmResult
from training.studies.material import Material, first, in_turn
from training.studies.study import Arm, Lesson, Study, StudyConfig

TRAINED, TEACHER = "trained", "teacher"


class PassAtKConfig(StudyConfig):
    """Sizes; the curve needs acting.runs = 16."""

    rows: int = Field(default=16, gt=0)
    """That the trained model learns from."""
    teacher: bool = True
    """Whether the model of [model], which the rows should be from, acts too."""


class PassAtK(Study):
    """See above."""

    name: ClassVar[str] = "pass_at_k"
    about: ClassVar[str] = "pass@k of the model before training and after it, and of its teacher"
    curves: ClassVar[bool] = True

    def __init__(self, config: PassAtKConfig) -> None:
        self._config = config

    @classmethod
    def of(cls, told: Mapping[str, object]) -> PassAtK:
        return cls(PassAtKConfig.model_validate(told))

    @property
    def config(self) -> PassAtKConfig:
        return self._config

    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        config, version = self._config, material.version(self._config.snapshot)
        order = in_turn(material.rows(version), seed, lambda row: row.family)
        lesson = Lesson(version, first(order, config.rows, "pass_at_k.rows"))
        found = [Arm("base", None), Arm(TRAINED, lesson)]
        return [*found, Arm(TEACHER, None, "teacher")] if config.teacher else found

    @classmethod
    def findings(cls, environments: Mapping[str, Mapping[str, ArmResult]]) -> dict[str, JsonValue]:
        """How far each curve rises, and at which k the trained model is better than its teacher."""
        found: dict[str, JsonValue] = {}
        for environment, arms in environments.items():
            for name, arm in arms.items():
                if len(arm.pass_at_k) > 1:
                    most = max(arm.pass_at_k)
                    rise = arm.pass_at_k[most].mean - arm.pass_at_k[1].mean
                    found[f"{environment}: {name}, points from k = 1 to {most}"] = round(100 * rise, 1)
            if TRAINED in arms and TEACHER in arms:
                trained, teacher = arms[TRAINED].pass_at_k, arms[TEACHER].pass_at_k
                both = sorted(set(trained) & set(teacher))
                better = [k for k in both if trained[k].mean > teacher[k].mean]
                found[f"{environment}: trained better than teacher at k"] = [*better]
        return found
