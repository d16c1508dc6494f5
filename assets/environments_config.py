"""The table [environments] of touchstone.toml: which games are played, by whom and how much."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from pipeline.agents import NAMES
from pipeline.attempts import SamplesConfig
from pipeline.types import Record
from training.environments.registry import MODULES


class HierarchyConfig(Record):
    """What the data sets of hierarchies are made of."""

    parents: tuple[str, ...] = ()
    """Versions of attempts, e.g. `games@v0001`; the newest one of [environments] and of `snapshot`, as far as there
    are any, where none is named."""
    annotator: Literal["rules", "model"] = "rules"
    """`model` asks that of [model] for sub-goals and progress. Rules stand in where its answer cannot be used, and the
    cards tell how far the two agree."""


class EnvironmentsConfig(Record):
    """Games, their tasks and who attempts them."""

    games: tuple[str, ...] = Field(default=MODULES, min_length=1)
    splits: tuple[Literal["train", "seen", "unseen"], ...] = Field(default=("train", "seen", "unseen"), min_length=1)
    per_split: int = Field(default=100, gt=0)
    """Tasks of each game in each split, taken evenly from its templates; all of them where there are no more."""
    agents: tuple[str, ...] = Field(default=("oracle", "wander"), min_length=1)
    """`oracle` is the expert, which follows the gold path; `wander` strays from it; those with a model need [model]."""
    samples: SamplesConfig = SamplesConfig(count=1)
    snapshot: str = Field(default="games", pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Name of the published data set of attempts in games."""
    processes: int = Field(default=2, gt=0)
    """Of each game, at a time."""
    material: dict[str, Path] = Field(default_factory=dict)
    """By game, what it is made of in place of what comes with it: for `alfworld` a folder with its game files, for
    `webshop` its file of products. Relative to the configuration file; `lists` has to name the tasks."""
    lists: Path | None = None
    """Folder with splits files in place of those of the project, relative to the configuration file."""

    @field_validator("games")
    @classmethod
    def _known_games(cls, games: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(games) - set(MODULES)):
            raise ValueError(f"there is no game {', '.join(unknown)}; there are {', '.join(MODULES)}")
        return games

    @field_validator("agents")
    @classmethod
    def _known_agents(cls, agents: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(agents) - set(NAMES)):
            raise ValueError(f"there is no agent {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return agents
