"""Which environment an agent acts through."""

from __future__ import annotations

from pipeline.environment import SandboxEnvironment
from pipeline.terminal_environment import TerminalEnvironment
from pipeline.types import Interface, TaskInstance
from sandbox.protocol import Backend


def environment_of(
    instance: TaskInstance, backend: Backend, interface: Interface, *, command_timeout_s: float
) -> SandboxEnvironment | TerminalEnvironment:
    """A fresh environment, not started yet."""
    if interface == "terminal":
        return TerminalEnvironment(instance, backend)
    return SandboxEnvironment(instance, backend, command_timeout_s=command_timeout_s)
