"""What a rollout acts on: reset, step, outcome. A sandbox with a task is one implementation; games are others."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from pipeline.types import Record, TaskInstance
from sandbox.protocol import Backend, Sandbox
from sandbox.types import ExecResult, FrozenState


class StepOutcome(Record):
    """What one action brought about."""

    observation: str
    exit_code: int | None
    """None when the command was stopped at its time limit, or where the environment knows no exit codes."""
    seconds: float


class Environment(Protocol):
    """One attempt at one task. SandboxUnavailable may leave any method; nothing may be concluded from it."""

    def reset(self) -> str:
        """Start afresh and return the first observation."""

    def step(self, command: str) -> StepOutcome:
        """Carry out one action."""

    def outcome(self, reference: str) -> FrozenState:
        """End the attempt and keep its final state under `reference`, for the verifier."""

    def close(self) -> None:
        """Release everything; safe to call twice."""


class SandboxEnvironment:
    """A task instance in a fresh sandbox started from its image."""

    def __init__(self, instance: TaskInstance, backend: Backend, *, command_timeout_s: float) -> None:
        self._instance = instance
        self._backend = backend
        self._command_timeout_s = command_timeout_s
        self._sandbox: Sandbox | None = None

    def reset(self) -> str:
        self.close()
        self._sandbox = self._backend.start(self._instance.image_digest, self._instance.limits)
        return ""

    def step(self, command: str) -> StepOutcome:
        result = self._running().execute(command, timeout_s=self._command_timeout_s)
        return StepOutcome(observation=observe(result), exit_code=result.exit_code, seconds=result.seconds)

    def outcome(self, reference: str) -> FrozenState:
        return self._running().freeze(reference)

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _running(self) -> Sandbox:
        if self._sandbox is None:
            raise RuntimeError("reset() comes first")
        return self._sandbox

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def observe(result: ExecResult) -> str:
    """The text an agent reads: the output, and a note where it was cut or stopped."""
    if result.timed_out:
        return f"{result.output}\n[stopped after {result.seconds:.0f} s: time limit]"
    return result.output
