"""The package's environment of PDDL games, begun once for each task: by itself it translates each problem twice.

Imports the packages of the game, so it is itself imported only where the game is played.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from alfworld.agents.utils.misc import Demangler
from textworld.core import EnvInfos
from textworld.envs.pddl import PddlEnv
from textworld.envs.pddl.logic import GameLogic


class Engine(PddlEnv):  # type: ignore[misc] # the package has no types
    """One game at a time, its pieces and things called as in ALFWorld: `cabinet 1`."""

    def __init__(self) -> None:
        super().__init__(EnvInfos(admissible_commands=True, won=True))
        self._named_for: Any = None
        self._named: dict[str, Any] = {}

    def begin(self, game: Mapping[str, Any]) -> Any:
        """The first state of a game, given as its file has it."""
        self._game_data = game
        self._game_file = None
        self.walkthrough = game.get("walkthrough")
        self._logic = _logic(game["pddl_domain"], game["grammar"])
        return self.reset()

    def names(self) -> dict[str, str]:
        """What the game calls each piece and thing, by its name in the problem."""
        return {one: info.name for one, info in self._entity_infos.items()}

    def plan(self) -> list[str]:
        """The planner's actions from here to the goal."""
        return list(self._pddl_state.replan(self._entity_infos))

    @property
    def _entity_infos(self) -> dict[str, Any]:
        if self._named_for is not self._pddl_state:
            self._named = self._get_entity_infos()
            demangler = Demangler(game_infos=self._named)
            for info in self._named.values():
                info.name = demangler.demangle_alfred_name(info.id).strip()
            self._named_for = self._pddl_state
        return self._named


@functools.lru_cache(maxsize=2)
def _logic(domain: str, grammar: str) -> GameLogic:
    """Rules and grammar, which take a while to read and are the same for all drawn tasks."""
    return GameLogic(domain=domain, grammar=grammar)
