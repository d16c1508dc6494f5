"""A terminal for agents that type keys and read a screen: full-screen programs, REPLs, prompts.

What carries the bytes is in pty_stream.py and in each backend, the screen in screen.py, the marks of the shell in
marks.py, the names of keys in keystrokes.py. For plain commands `execute` is cheaper and says more.
"""

from __future__ import annotations

import codecs
import time
from types import TracebackType
from typing import Literal

from sandbox.escape_grammar import unfinished
from sandbox.escapes import clean
from sandbox.output import OutputBuffer
from sandbox.streams import Deadline
from sandbox.terminals.floods import shortened
from sandbox.terminals.keystrokes import keys
from sandbox.terminals.marks import Marks
from sandbox.terminals.pty_stream import PtyStream
from sandbox.terminals.screen import Screen, ScreenModel
from sandbox.types import Frozen

MOST_KEYS = 64 << 10
# After a mark of the shell nothing more comes for this long when it really waits: typed-ahead lines run at once.
SETTLED_S = 0.05
# Output is drawn at its first pause, or this often while there is none, so that programs get their answers.
PAUSE_S = 0.01
DRAW_EVERY_S = 0.25
_MOST_PENDING = 256 << 10

Status = Literal["done", "continuation", "waiting_input", "idle", "timeout", "shell_exited"]


class TerminalState(Frozen):
    """How a wait ended."""

    status: Status
    """`done`: the shell shows its prompt. `continuation`: it wants the rest of a command (open quote, heredoc).
    `waiting_input`: a program waits for keys. `idle`: quiet, and nothing more is known. `timeout`: output still came
    when the time was over. `shell_exited`: no shell is left.

    The first two are what the shell says, in marks that a program could forge; `waiting_input` is what the kernel
    says where it can be asked, else a guess from an unfinished line or a full-screen program. Hints, no evidence.
    """
    exit_code: int | None
    """Of the last command, when `done` and the shell tells it."""
    screen: Screen
    seconds: float


class TerminalOutput(Frozen):
    """What was written since the last look."""

    text: str
    """Without escape sequences and overwritten text, cut to head + tail."""
    output_bytes: int
    """Bytes really written, escape sequences included."""
    truncated: bool
    """True when bytes were left out of `text`."""


class Terminal:
    """One terminal of a sandbox. For one thread at a time.

    A program that writes faster than it is read is slowed down by its terminal, and reading happens only in `wait`,
    `screen` and `new_output`. Every method raises SandboxUnavailable when the connection to the sandbox breaks.
    """

    def __init__(self, stream: PtyStream, rows: int, columns: int) -> None:
        self._stream = stream
        self._model = ScreenModel(rows, columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""
        self._pending: list[str] = []
        self._pending_size = 0
        self._drawn_at = time.monotonic()
        self._output = OutputBuffer()
        self._marks = Marks()
        self._sent_line = False

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, typed: str | bytes) -> None:
        """Type text, or bytes from `keys`, as they are: a line is run when its end (`\\r` or `\\n`) is typed.

        Raises ValueError for more than MOST_KEYS bytes: `put` brings in whole files.
        """
        data = typed.encode() if isinstance(typed, str) else typed
        if len(data) > MOST_KEYS:
            raise ValueError(f"{len(data)} bytes are too much to type at once; the most is {MOST_KEYS}")
        self._marks.fresh = False
        self._sent_line = b"\r" in data or b"\n" in data
        self._stream.send(data)

    def press(self, *names: str) -> None:
        """Press keys by name, as `keys` knows them, in the form that the program asked for."""
        self.send(keys(*names, application=self._model.application_keys))

    def wait(self, timeout_s: float, quiet_s: float = 0.5) -> TerminalState:
        """Until the shell asks for input, or nothing was written for `quiet_s` seconds, or the time is over.

        The shell asks once for each prompt: a second wait at the same prompt waits for silence.
        """
        clock = Deadline(timeout_s)
        wrote_at = 0.0
        while True:
            quiet_for = clock.elapsed - wrote_at
            step = (SETTLED_S if self._marks.fresh and quiet_for < SETTLED_S else quiet_s) - quiet_for
            if self._take(self._stream.read(min(step, clock.left, PAUSE_S if self._pending else step))):
                wrote_at = clock.elapsed
                if time.monotonic() - self._drawn_at > DRAW_EVERY_S:
                    self._draw()
            else:
                self._draw()
            if (status := self._status(clock, clock.elapsed - wrote_at, quiet_s)) is not None:
                self._draw()
                self._marks.fresh = False
                code = self._marks.exit_code if status == "done" else None
                seconds = clock.elapsed
                return TerminalState(status=status, exit_code=code, screen=self._model.snapshot(), seconds=seconds)

    def screen(self) -> Screen:
        """What is shown now."""
        self._catch_up()
        return self._model.snapshot()

    def new_output(self) -> TerminalOutput:
        """What was written since the last call."""
        self._catch_up()
        output, self._output = self._output, OutputBuffer()
        text = clean(output.text(), rows=self._model.rows, columns=self._model.columns)
        return TerminalOutput(text=text, output_bytes=output.total, truncated=output.truncated)

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size, and tell the programs."""
        self._catch_up()
        self._model.resize(rows, columns)
        self._stream.resize(rows, columns)

    def close(self) -> None:
        """End the shell and the programs of its session. Safe to call twice."""
        self._stream.close()

    def _status(self, clock: Deadline, quiet_for: float, quiet_s: float) -> Status | None:
        """None while the wait goes on."""
        if self._stream.ended:
            return "shell_exited"
        if self._marks.fresh and quiet_for >= SETTLED_S:
            return "continuation" if self._marks.place == "continuation" else "done"
        if quiet_for >= quiet_s:
            return self._when_quiet()
        return "timeout" if clock.left <= 0 else None

    def _when_quiet(self) -> Status:
        """What a terminal that says nothing waits for. A shell too old to mark the start of a command is believed only
        when no line was typed since its prompt.
        """
        if self._marks.place in ("prompt", "continuation") and not self._sent_line:
            return "continuation" if self._marks.place == "continuation" else "done"
        awaits = self._stream.awaits_input()
        if awaits is None:
            self._draw()
            screen = self._model.snapshot()
            awaits = screen.alternate or screen.rows[screen.cursor_row][: screen.cursor_column].strip() != ""
        return "waiting_input" if awaits else "idle"

    def _catch_up(self) -> None:
        """Take what is there already; a program that never pauses is left to `wait`."""
        clock = Deadline(DRAW_EVERY_S)
        while clock.left > 0 and self._take(self._stream.read(0)):
            pass
        self._draw()

    def _take(self, data: bytes) -> bool:
        """Take output that is not drawn yet; whether there was any."""
        if not data:
            return False
        self._output.add(data)
        text = self._unfinished + self._decoder.decode(data)
        cut = unfinished(text)
        self._unfinished = text[cut:]
        self._marks.look(text[:cut])
        self._pending.append(text[:cut])
        self._pending_size += cut
        if self._pending_size > _MOST_PENDING:
            self._pending = [self._shortened()]
            self._pending_size = len(self._pending[0])
        return True

    def _shortened(self) -> str:
        model = self._model
        return shortened("".join(self._pending), model.rows, model.columns, scrolls_whole=model.scrolls_whole)

    def _draw(self) -> None:
        """Bring the screen up to date, and answer what programs asked the terminal."""
        self._drawn_at = time.monotonic()
        if not self._pending:
            return
        self._model.feed(self._shortened())
        self._pending.clear()
        self._pending_size = 0
        if replies := self._model.replies():
            self._stream.send(replies)
