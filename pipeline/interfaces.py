"""Which environment an agent acts through."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pipeline.environment import Environment, SandboxEnvironment
from pipeline.terminal_environment import TerminalEnvironment
from pipeline.types import Interface, TaskInstance
from sandbox.protocol import Backend


class Environments(Protocol):
    """Where attempts take place. Safe to use from threads."""

    @property
    def name(self) -> str:
        """Stored on trajectories as their backend."""

    def opened(self, instance: TaskInstance, interface: Interface) -> AbstractContextManager[Environment]:
        """A fresh environment, released at the end.

        Raises ConfigurationError for an interface that it does not have, and SandboxUnavailable.
        """


@dataclass(frozen=True)
class Sandboxes:
    """Task instances in fresh sandboxes."""

    backend: Backend
    command_timeout_s: float

    @property
    def name(self) -> str:
        return self.backend.name

    def opened(self, instance: TaskInstance, interface: Interface) -> AbstractContextManager[Environment]:
        """See Environments; both interfaces are there."""
        return environment_of(instance, self.backend, interface, command_timeout_s=self.command_timeout_s)


def environment_of(
    instance: TaskInstance, backend: Backend, interface: Interface, *, command_timeout_s: float
) -> SandboxEnvironment | TerminalEnvironment:
    """A fresh environment, not started yet."""
    if interface == "terminal":
        return TerminalEnvironment(instance, backend)
    return SandboxEnvironment(instance, backend, command_timeout_s=command_timeout_s)
