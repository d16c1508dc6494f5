"""What a rollout acts on: reset, step, outcome. A sandbox with a task is one implementation; games are others."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self

from pydantic import Field

from pipeline.types import Record, TaskInstance
from sandbox.escapes import clean
from sandbox.protocol import Backend, Sandbox
from sandbox.types import ExecResult, FileChange

MAX_CHANGES = 500
"""More paths than this are not kept on a row: a package that was installed has thousands."""


class StepOutcome(Record):
    """What one action brought about."""

    observation: str
    exit_code: int | None
    """None when the command was stopped at its time limit, or where the environment knows no exit codes."""
    seconds: float
    done: bool = False
    """The environment takes no further action: the attempt is over."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """What else the row must say about the step; it goes into `Step.extra`."""


class Environment(Protocol):
    """One attempt at one task. SandboxUnavailable may leave any method; nothing may be concluded from it."""

    def reset(self) -> str:
        """Start afresh and return the first observation."""

    def step(self, command: str) -> StepOutcome:
        """Carry out one action."""

    def changes(self) -> tuple[FileChange, ...]:
        """What differs from the beginning, by path, at most MAX_CHANGES of it; empty where there are no files."""

    def outcome(self, reference: str) -> str:
        """End the attempt and keep its final state for the verifier under `reference`, which is given back.

        Empty where no state can be kept: then the steps say how it ended.
        """

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
        self._sandbox = self._backend.start(self._instance.image, self._instance.limits)
        return ""

    def step(self, command: str) -> StepOutcome:
        return told(self.sandbox.execute(command, timeout_s=self._command_timeout_s))

    def changes(self) -> tuple[FileChange, ...]:
        return tuple(self.sandbox.changes()[:MAX_CHANGES])

    def outcome(self, reference: str) -> str:
        return self.sandbox.freeze(reference).reference

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    @property
    def sandbox(self) -> Sandbox:
        """Where it happens. Raises RuntimeError before the first reset."""
        if self._sandbox is None:
            raise RuntimeError("reset() comes first")
        return self._sandbox

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def told(result: ExecResult) -> StepOutcome:
    """What the agent and the row learn of a command."""
    marks = {"shell_restarted": result.shell_restarted, "oom_killed": result.oom_killed}
    return StepOutcome(
        observation=observe(result),
        exit_code=result.exit_code,
        seconds=result.seconds,
        extra={name: True for name, happened in marks.items() if happened},
    )


def observe(result: ExecResult) -> str:
    """The text an agent reads: the output as a terminal would show it, without escape sequences and overwritten text.

    A note follows where the command was stopped, or its shell did not outlive it.
    """
    notes = []
    if result.timed_out:
        notes.append(f"\n[stopped after {result.seconds:.0f} s: time limit]")
    if result.shell_restarted:
        notes.append("\n[the shell ended: the next command starts in a new one]")
    return clean(result.output) + "".join(notes)
