"""An attempt through a terminal: keys in, what the screen then shows out. One action is a batch of keystrokes.

An action is the JSON of a list of `{"keystrokes": text, "duration": seconds}`. A text that is the name of a key or of a
combination (`C-c`, `Enter`, as tmux has them) is that key; any other text is typed as it stands.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from pydantic import Field, TypeAdapter

from pipeline.environment import StepOutcome
from pipeline.types import Record, TaskInstance
from sandbox.protocol import Backend, Sandbox
from sandbox.terminals.terminal import Terminal, TerminalState
from sandbox.types import FrozenState

ROWS, COLUMNS = 40, 160
MAX_WAIT_S = 60.0
"""Longest that one batch of keys waits, s; a longer program is looked at again with empty keystrokes."""
FIRST_PROMPT_S = 10.0


class Keystrokes(Record):
    """Keys to type, and how long to wait for what they bring."""

    keystrokes: str
    duration: float = Field(default=1.0, ge=0.0)
    """Seconds; the wait ends earlier when the shell shows its prompt."""


BATCH: TypeAdapter[tuple[Keystrokes, ...]] = TypeAdapter(tuple[Keystrokes, ...])


class TerminalEnvironment:
    """A task instance in a fresh sandbox, driven by keys."""

    def __init__(self, instance: TaskInstance, backend: Backend) -> None:
        self._instance = instance
        self._backend = backend
        self._sandbox: Sandbox | None = None
        self._terminal: Terminal | None = None

    def reset(self) -> str:
        """The screen with the first prompt."""
        self.close()
        self._sandbox = self._backend.start(self._instance.image_digest, self._instance.limits)
        self._terminal = self._sandbox.terminal(rows=ROWS, columns=COLUMNS)
        state = self._terminal.wait(FIRST_PROMPT_S)
        self._terminal.new_output()
        return f"Current Terminal Screen:\n{state.screen.text}"

    def step(self, command: str) -> StepOutcome:
        """Type a batch. Raises pydantic's ValidationError for an action that is none."""
        terminal = self._running()
        started = time.monotonic()
        state: TerminalState | None = None
        for one in BATCH.validate_json(command):
            if one.keystrokes:
                terminal.press(one.keystrokes)
            patience_s = min(one.duration, MAX_WAIT_S)
            state = terminal.wait(patience_s, quiet_s=patience_s)
        extra = {} if state is None else {"terminal": state.status}
        return StepOutcome(
            observation=_seen(terminal),
            exit_code=None if state is None else state.exit_code,
            seconds=time.monotonic() - started,
            extra=extra,
        )

    def outcome(self, reference: str) -> FrozenState:
        """See Environment."""
        return self.sandbox.freeze(reference)

    def close(self) -> None:
        """See Environment."""
        if self._terminal is not None:
            self._terminal.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self._terminal = self._sandbox = None

    @property
    def sandbox(self) -> Sandbox:
        """Where it happens. Raises RuntimeError before the first reset."""
        if self._sandbox is None:
            raise RuntimeError("reset() comes first")
        return self._sandbox

    def _running(self) -> Terminal:
        if self._terminal is None:
            raise RuntimeError("reset() comes first")
        return self._terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _seen(terminal: Terminal) -> str:
    """New output where programs only wrote on; the screen where one of them holds it."""
    output, screen = terminal.new_output(), terminal.screen()
    if screen.alternate or not output.text.strip():
        return f"Current Terminal Screen:\n{screen.text}"
    return f"New Terminal Output:\n{output.text}"
