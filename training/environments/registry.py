"""The games by name: the one list of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from pipeline.errors import ConfigurationError
from training.environments.game import Game, GameFacts

MODULES = ("alfworld", "scienceworld", "textcraft", "textworld_express", "webshop")
"""Modules of this folder, each with `FACTS` and `make() -> Game`.

Where a game can be made of material of the user's own, `make` takes its path too.
"""


def facts_of(name: str) -> GameFacts:
    """Raises ConfigurationError for a game that there is not."""
    found = _module(name).FACTS
    assert isinstance(found, GameFacts)
    return found


def make(name: str, material: Path | None = None) -> Game:
    """A game that is ready to be played in this process. Raises ConfigurationError, also where a package is missing."""
    given = () if material is None else (material,)
    try:
        game: Game = _module(name).make(*given)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{name} needs the Python package {error.name!r}: install the extra `envs` (infra/bootstrap.sh envs)"
        ) from error
    return game


def _module(name: str) -> ModuleType:
    if name not in MODULES:
        raise ConfigurationError(f"there is no game {name!r}; there are {', '.join(MODULES)}")
    return import_module(f"training.environments.{name}")
