"""An attempt through a terminal: keys in, what the screen then shows out. One action is a batch of keystrokes.

An action is the JSON of a list of `{"keystrokes": text, "duration": seconds}`. A text that is the name of a key or of a
combination (`C-c`, `Enter`, as tmux has them) is that key; any other text is typed as it stands.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from pipeline.environment import MAX_CHANGES, StepOutcome
from pipeline.schemas import clean_text
from pipeline.types import Record, TaskInstance
from sandbox.protocol import Backend, Sandbox
from sandbox.terminals.terminal import Terminal, TerminalState
from sandbox.types import FileChange

ROWS, COLUMNS = 40, 160
MAX_WAIT_S = 60.0
"""Longest wait after one text, s; a longer program is looked at again with empty keystrokes."""
MAX_BATCH_S = 180.0
"""After so many seconds nothing more of a batch is typed: no single decision may use up the time of the attempt."""
MOST_SEEN = 10_000
"""Bytes of one observation, half of them from its beginning."""
FIRST_PROMPT_S = 10.0


class Keystrokes(Record):
    """Keys to type, and how long to wait for what they bring. What else a model writes beside them is passed over."""

    model_config = ConfigDict(extra="ignore")

    keystrokes: Annotated[str, AfterValidator(clean_text)]
    duration: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
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
        self._sandbox = self._backend.start(self._instance.image, self._instance.limits)
        return f"Current Terminal Screen:\n{self._open().screen.text}"

    def step(self, command: str) -> StepOutcome:
        """Type a batch. Raises pydantic's ValidationError for an action that is none."""
        if self._terminal is None:
            raise RuntimeError("reset() comes first")
        started = time.monotonic()
        state, note = _type(self._terminal, BATCH.validate_json(command), until=started + MAX_BATCH_S)
        observation = _seen(self._terminal) + note
        extra = {} if state is None else {"terminal": state.status}
        if state is not None and state.status == "shell_exited":
            self._terminal.close()
            self._open()
            observation += "\n[the shell ended: the next keys go to a new one]"
        return StepOutcome(
            observation=observation,
            exit_code=None if state is None else state.exit_code,
            seconds=time.monotonic() - started,
            extra=extra,
        )

    def changes(self) -> tuple[FileChange, ...]:
        """See Environment."""
        return tuple(self.sandbox.changes()[:MAX_CHANGES])

    def outcome(self, reference: str) -> str:
        """See Environment."""
        return self.sandbox.freeze(reference).reference

    def close(self) -> None:
        """See Environment."""
        terminal, sandbox = self._terminal, self._sandbox
        self._terminal = self._sandbox = None
        try:
            if terminal is not None:
                terminal.close()
        finally:
            if sandbox is not None:
                sandbox.close()

    @property
    def sandbox(self) -> Sandbox:
        """Where it happens. Raises RuntimeError before the first reset."""
        if self._sandbox is None:
            raise RuntimeError("reset() comes first")
        return self._sandbox

    def _open(self) -> TerminalState:
        """A terminal at its first prompt."""
        self._terminal = self.sandbox.terminal(rows=ROWS, columns=COLUMNS)
        state = self._terminal.wait(FIRST_PROMPT_S)
        self._terminal.new_output()
        return state

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _type(terminal: Terminal, batch: Sequence[Keystrokes], *, until: float) -> tuple[TerminalState | None, str]:
    """Type one text after the other, and wait after each. Returns the last state, and a note where some were left."""
    state: TerminalState | None = None
    for number, one in enumerate(batch):
        if time.monotonic() > until or (state is not None and state.status == "shell_exited"):
            return state, f"\n[the last {len(batch) - number} of {len(batch)} keystrokes were not typed]"
        try:
            if one.keystrokes:
                terminal.press(one.keystrokes)
        except ValueError as error:  # more than a terminal takes
            return terminal.wait(0), f"\n[not typed, nor what came after: {error}]"
        patience_s = min(one.duration, MAX_WAIT_S)
        state = terminal.wait(patience_s, quiet_s=patience_s)
    return state, ""


def _seen(terminal: Terminal) -> str:
    """New output where programs only wrote on; the screen where one of them holds it."""
    output, screen = terminal.new_output(), terminal.screen()
    if screen.alternate or not output.text.strip():
        return f"Current Terminal Screen:\n{screen.text}"
    return f"New Terminal Output:\n{_limited(output.text)}"


def _limited(text: str) -> str:
    data = text.encode()
    if len(data) <= MOST_SEEN:
        return text
    half = MOST_SEEN // 2
    head, tail = (part.decode(errors="ignore") for part in (data[:half], data[-half:]))
    return f"{head}\n[{len(data) - 2 * half} bytes left out: output is limited to {MOST_SEEN}]\n{tail}"
