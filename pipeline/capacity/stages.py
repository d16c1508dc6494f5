"""The stages of a run as a plan sees them, and what is measured of each."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from pipeline.capacity.measures import Measure
from pipeline.types import Record
from sandbox.types import BuildLimits, Limits

Stage = Literal[
    "listing",
    "fetch",
    "score",
    "build",
    "instances",
    "selection",
    "decontamination",
    "rating",
    "sampling",
    "rollout",
    "judgement",
    "verification",
    "curation",
    "publishing",
]


class Kind(NamedTuple):
    """What a stage is, apart from any run."""

    items: str
    """What one item of it is."""
    gives: str | None
    """What its yield counts, for each item; None where every item goes on."""
    remedy: str
    """How there comes to be a measurement."""
    tables: tuple[str, ...] = ()
    timed: bool = True
    """Its items are in the journal."""
    optional: bool = False
    """A run can do without."""
    cores: float = 1.0
    """What one item uses of them at the most."""


_AGENTS = "run `touchstone run --agents NAME` with a model in [model]"
_RUN = "run `touchstone run` over some repositories first"
_BUILDING = BuildLimits().cpus
_SANDBOX = Limits().cpus

STAGES: dict[Stage, Kind] = {
    "listing": Kind("repositories", None, _RUN, ("listings",)),
    "fetch": Kind("repositories", "fetched", _RUN, ("repositories", "contexts"), cores=_BUILDING),
    "score": Kind("repositories", "kept", _RUN, ("scores",)),
    "build": Kind("repositories", "with a usable image", _RUN, ("image_builds",), cores=_BUILDING),
    "instances": Kind("images", "admitted instances", _RUN, ("instances",), cores=_BUILDING),
    "selection": Kind("instances", "no near copies", _RUN, ("selections",)),
    "decontamination": Kind(
        "instances", "far from benchmarks", "name folders of tasks in [decontamination] benchmarks and run again",
        ("contaminations",), optional=True,
    ),
    "rating": Kind("instances", None, _RUN, ("ratings",), optional=True),
    "sampling": Kind("instances", "attempts", _AGENTS, timed=False),
    "rollout": Kind("attempts", "brought to an end", _AGENTS, ("trajectories",), cores=_SANDBOX),
    "judgement": Kind("attempts", None, "set judge = true in [rollout]", ("judgements",), optional=True),
    "verification": Kind("attempts", "passed", _AGENTS, ("verifications",), cores=_SANDBOX),
    "curation": Kind(
        "trajectories", "kept", "run until an attempt passes, and publish", ("curations",)
    ),
    "publishing": Kind("trajectories", None, "let `touchstone run` publish a version", timed=False, optional=True),
}  # fmt: skip
"""In the order of the pipeline; the model is asked about all attempts, so that stage stands before their verdicts."""


class StageMeasure(Record):
    """What one stage took and gave, of the recorded run."""

    stage: Stage
    seconds: Measure | None = None
    """Of one item from its start to its end, all attempts at it together; None where nothing was timed."""
    active_seconds: Measure | None = None
    """… without those in which a model was waited for."""
    cores: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """What an item used of them at the most while it was active."""
    concurrency: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Items in progress at a time, while there were any."""
    table_bytes: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Rows of one item in the working tables, or in the published version."""
    kept_bytes: Measure | None = None
    """What else is kept of one item: its tree, its image."""
    prompt_tokens: Measure | None = None
    cached_tokens: Measure | None = None
    """Of the prompt tokens."""
    completion_tokens: Measure | None = None
    yielded: Measure | None = None
    """What goes on to the next stage of each item."""
    basis: str
    """What was measured, and what is wrong with it."""


class Measured(Record):
    """All that a plan needs to know of a run."""

    cores: float = Field(gt=0, allow_inf_nan=False)
    """Of the machine that ran it."""
    attempts: str
    """Whose attempts were measured."""
    stages: tuple[StageMeasure, ...]

    @model_validator(mode="after")
    def _once(self) -> Measured:
        names = [one.stage for one in self.stages]
        if len(names) != len(set(names)):
            raise ValueError("a stage is there twice")
        return self

    def of(self, stage: Stage) -> StageMeasure | None:
        return next((one for one in self.stages if one.stage == stage), None)
