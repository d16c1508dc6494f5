"""The driver's side of one place for containers that the keeper holds. The keeper's side is keeper_box.py."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from typing import Any

from sandbox.container.containers import ImageFacts
from sandbox.errors import SandboxUnavailable
from sandbox.overlay.keeper import Connection, Keeper, Refusal
from sandbox.overlay.pipes import Pipes
from sandbox.overlay.spec import Place, Program, container_spec, process_spec
from sandbox.overlay.states import States
from sandbox.types import Limits

logger = logging.getLogger(__name__)

# The files of a sandbox are kept in memory and count as such: half of it for each.
FILES_SHARE = 2


@dataclass(frozen=True)
class Ground:
    """What a sandbox stands on."""

    image_digest: str
    facts: ImageFacts
    engine_spec: dict[str, Any]
    """How the engine confines a container of this image."""
    layers: list[str]
    """Directories of the image, top first, without those of a frozen state."""


class NotStarted(SandboxUnavailable):
    """The runtime could not start a container."""


class Box:
    """A place for containers that the keeper made: an overlay, and the way to start something on it."""

    def __init__(self, keeper: Keeper, name: str, ground: Ground, below: str | None, limits: Limits) -> None:
        """`below` is the directory of the frozen state to start from. Raises SandboxUnavailable."""
        self._keeper = keeper
        self._name = name
        self._ground = ground
        self._limits = limits
        self._runs = 0
        self._held = None if below is None else States.hold(below)
        try:
            self.connection: Connection = keeper.connect()
        except BaseException:
            self._let_go()
            raise
        layers = ground.layers if below is None else [below, *ground.layers]
        try:
            self.ask(
                "make",
                name=name,
                layers=layers,
                size_mb=limits.memory_mb // FILES_SHARE,
                lifetime_s=limits.lifetime_s,
            )
        except BaseException:
            self.connection.close()
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def run(self, program: Program, net: str | None = None) -> Pipes:
        """Have a container started; the ends of its streams. `started` tells whether that went well.

        Raises SandboxUnavailable.
        """
        self._runs += 1
        identity = f"{self._name}-{self._runs}"
        place = Place(
            root=f"{self._keeper.place}/boxes/{self._name}/root",
            group=f"/touchstone/{self._keeper.owner}/{identity}",
            net=net,
        )
        spec = container_spec(self._ground.engine_spec, place, program, self._limits)
        pipes = Pipes()
        try:
            self.ask("run", pipes.theirs, identity=identity, config=json.dumps(spec))
        except BaseException:
            pipes.close()
            raise
        pipes.hand_over()
        return pipes

    def started(self) -> None:
        """Wait until the last container has started. Raises NotStarted or SandboxUnavailable."""
        try:
            self.connection.ask("started")
        except Refusal as error:
            raise NotStarted(str(error)) from error

    def terminal(self, program: Program) -> tuple[int, int]:
        """Start another program in the running container; the master of its terminal and a pidfd of it.

        Raises SandboxUnavailable.
        """
        process = json.dumps(process_spec(self._ground.engine_spec, program, terminal=True))
        try:
            master, handle = self.connection.ask_for_descriptors("terminal", process=process)
        except Refusal as error:
            raise SandboxUnavailable(f"opening a terminal: {error}") from error
        return master, handle

    def ask(self, do: str, descriptors: tuple[int, ...] = (), **values: object) -> Any:
        """What the keeper answers. Raises SandboxUnavailable also when it refuses."""
        try:
            return self.connection.ask(do, descriptors, **values).get("value")
        except Refusal as error:
            raise SandboxUnavailable(f"{do}: {error}") from error

    def remove(self) -> None:
        """End everything in it and give it back. Never raises for a box that is gone."""
        try:
            self.ask("remove")
        except SandboxUnavailable as error:
            logger.warning("a sandbox could not be removed, its keeper will: %s", error)
        self.connection.close()
        self._let_go()
