"""What a study is, and what all of them can be told. Sizes are settings: the defaults suit a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, JsonValue

from pipeline.types import Record
from training.studies.figures import ArmResult
from training.studies.material import Material, StudyRow, Version

Answered = Literal["trained", "teacher"]


class LearningConfig(Record):
    """How the models of all arms are fine-tuned. In the paper: full weights of 7B to 32B, 2 epochs, 32768 tokens."""

    base: Path
    """Folder of weights with tokenizer.json and a chat template, relative to the file of settings."""
    max_tokens: int = Field(default=1024, gt=0)
    """Of a window, and of a pack of them."""
    epochs: float = Field(default=2.0, gt=0.0)
    learning_rate: float = Field(default=2e-4, gt=0.0)
    batch: int = Field(default=4, gt=0)
    """Packs of a step."""
    lora_rank: int = Field(default=16, ge=0)
    """Twice it is alpha; 0 for full weights."""
    precision: Literal["bf16", "fp32"] = "fp32"
    gradient_checkpointing: bool = True
    save_every: int = Field(default=10, gt=0)
    """Steps between two checkpoints, from which a stretch goes on."""
    stretch_cpu_s: float = Field(default=480.0, gt=0.0)
    """CPU time of one cell of training, s; what is left is done in the next one."""


class ActingConfig(Record):
    """How the models of all arms act, and on what."""

    gguf: Path | None = None
    """The same weights as a GGUF file, which a server on the CPU answers from with each arm's adapter on top; relative
    to the file of settings. None to answer from `base` within this process."""
    device: str = "cpu"
    """Of a model within this process: cpu, cuda, cuda:1 …"""
    context: int = Field(default=4096, ge=512)
    """Tokens of prompt and answer, of the server."""
    threads: int = Field(default=2, gt=0)
    """Of the server."""
    agent: Literal["bash", "terminus"] = "bash"
    max_steps: int = Field(default=5, gt=0)
    max_seconds: float = Field(default=300.0, gt=0.0)
    """Of an attempt. What a slow machine does is a label here as anywhere."""
    command_timeout_s: float = Field(default=30.0, gt=0.0)
    temperature: float = Field(default=0.7, ge=0.0)
    top_p: float = Field(default=0.95, gt=0.0, le=1.0)
    max_tokens: int = Field(default=256, gt=0)
    """Of an answer."""
    runs: int = Field(default=4, gt=0)
    """Attempts at each instance."""
    instances: int = Field(default=8, gt=0)
    """Of each environment."""
    instances_per_cell: int = Field(default=4, gt=0)
    environments: tuple[str, ...] = Field(default=("touchstone",), min_length=1)
    """Benchmarks: `touchstone` for tasks that were made here, the others as `touchstone evaluate` names them."""
    split: Literal["validation", "test"] | None = "test"
    """Of the tasks that were made here; None for all."""
    families: tuple[str, ...] = ()
    """Only these, of the tasks that were made here; empty for all."""


class StudyConfig(Record):
    """What every study can be told."""

    snapshot: str = "terminal"
    """NAME or NAME@VERSION of the rows."""
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    """Each makes a model of every arm, from rows of its own choice where the arm chooses."""
    learning: LearningConfig
    acting: ActingConfig = ActingConfig()


class Lesson(NamedTuple):
    """What an arm learns from."""

    version: Version
    rows: tuple[StudyRow, ...]


class Arm(NamedTuple):
    """One of the things that are compared."""

    name: str
    lesson: Lesson | None
    """None for weights as they are."""
    answered: Answered = "trained"
    """`teacher` for the model of [model], which learns nothing."""


class Study(ABC):
    """One experiment with its settings."""

    name: ClassVar[str]
    about: ClassVar[str]
    """One line."""
    compared_to: ClassVar[str] = "base"
    """Name of the arm that all others are compared to."""
    paths: ClassVar[tuple[tuple[str, ...], ...]] = (("learning", "base"), ("acting", "gguf"))
    """Settings that are paths: they name places of a machine and decide nothing."""

    curves: ClassVar[bool] = False
    """Whether the picture is of pass@k by k, and not of pass@1 alone."""

    @classmethod
    @abstractmethod
    def of(cls, told: Mapping[str, object]) -> Study:
        """The study with these settings. Raises pydantic's ValidationError."""

    @property
    @abstractmethod
    def config(self) -> StudyConfig:
        """Its settings."""

    @abstractmethod
    def arms(self, seed: int, material: Material) -> Sequence[Arm]:
        """The same ones for each seed. Raises ConfigurationError when there are too few rows."""

    def held_out(self) -> frozenset[str]:
        """Families that no arm learns from and that alone are evaluated; empty where splits hold out."""
        return frozenset()

    @classmethod
    def findings(cls, environments: Mapping[str, Mapping[str, ArmResult]]) -> dict[str, JsonValue]:
        """What is to be said besides, from the results of arms by environment."""
        del environments
        return {}
