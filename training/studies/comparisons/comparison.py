"""What a comparison is, and what all of them can be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from pipeline.types import Record, content_id
from training.cells import Cell
from training.studies.comparisons.figures import ArmFigures, Group

GGUF = "gguf"
"""Backbone of arms that answer from a file of weights that is given."""


class ComparisonConfig(Record):
    """What every comparison can be told. A field of a kind below decides something and is part of the setting."""

    environments: tuple[str, ...] = Field(min_length=1)
    budget: int = Field(gt=0)
    """Token units that each arm may spend: see training/loop.py."""
    arms: tuple[str, ...] = ()
    """Empty for all; without `gguf` for all that need none."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2), min_length=1)
    gguf: Path | None = None
    """Weights of the arms whose backbone is `gguf`; relative to the file of settings."""

    def deciding(self) -> dict[str, JsonValue]:
        """What decides what comes of a cell. Arms and seeds do not: more of them go on with the same setting."""
        return self.model_dump(mode="json", exclude={"arms", "seeds", "gguf", "budget"})


class ArmFacts(Record):
    """One of the things that are compared."""

    about: str
    group: Literal["bound", "learned", "prompted"]
    """A bound is no method: what can be had for nothing, and what can be had at all."""
    backbone: str
    """Arms of different ones are never in one table."""
    judged: int | None = None
    """The first so many tasks of a group; None for all. The same for all arms of a backbone."""


class Cited(Record):
    """A figure of others, who had another backbone, other tasks or another budget: shown, and marked as not run."""

    name: str
    source: str
    figure: str
    status: Literal["not run"] = "not run"


class ComparisonPlan(Record):
    """What is the same for all arms and seeds; results of different ones are never mixed."""

    name: str
    budget: int
    """Token units of each arm."""
    config: dict[str, JsonValue]
    tasks: dict[str, dict[Group, tuple[str, ...]]]
    """Environment -> group -> names of the tasks on which arms are judged, in their order."""

    @property
    def setting(self) -> str:
        """Hash of all of it."""
        return content_id("setting", self.model_dump(mode="json"))


Tasks = Mapping[str, Mapping[Group, tuple[str, ...]]]
"""By environment."""
TasksOf = Callable[[ComparisonConfig, Path], Tasks]
"""The tasks of the environments of a configuration, given the data folder. Raises ConfigurationError."""
RunCell = Callable[[Cell, ComparisonPlan, ComparisonConfig, Path], ArmFigures]
"""Do one cell, given the data folder: the budget and the tasks are those of the plan, all else is the configuration's.

It may be killed at any time and then begins anew, or where it was, by itself. Raises ConfigurationError, and
SandboxUnavailable or InfrastructureFailure when our machinery broke: then there is no result.
"""


@dataclass(frozen=True)
class Comparison:
    """One experiment."""

    name: str
    about: str
    """One line."""
    arms: Mapping[str, ArmFacts]
    """In the order in which they are done and shown."""
    compared_to: str
    """Name of the arm that all others of its backbone are compared to."""
    cited: tuple[Cited, ...]
    config: type[ComparisonConfig]
    """With a default for every field."""
    tasks: TasksOf
    run_cell: RunCell
