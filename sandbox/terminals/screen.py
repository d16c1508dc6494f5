"""What a terminal shows: text and escape sequences in, rows of characters out.

The parser is here, and no input can break it; the cells are in screen_cells.py. How a flood of output is made short
before it comes here is in floods.py.
"""

from __future__ import annotations

from sandbox.escape_grammar import SEQUENCE
from sandbox.terminals.screen_cells import APPLICATION_KEYS, AS_ESCAPE, CONTROLS, Cells
from sandbox.types import Frozen


class Screen(Frozen):
    """What a terminal shows at one moment."""

    rows: tuple[str, ...]
    """Text of each row, without the blanks at its end."""
    cursor_row: int
    """From 0."""
    cursor_column: int
    """From 0; equal to the number of columns when the next character starts a new row."""
    title: str
    """What a program last named the window."""
    alternate: bool
    """Whether a full-screen program holds the screen."""

    @property
    def text(self) -> str:
        """The rows as lines, without the blank ones at the end."""
        return "\n".join(self.rows).rstrip("\n")


class ScreenModel:
    """The screen of a terminal, fed with its output. Input may be cut anywhere but inside a sequence.

    No input raises an error.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._cells = Cells(columns, rows)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._cells.lines

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self._cells.columns

    @property
    def application_keys(self) -> bool:
        """Whether the program asked for the other form of the arrow keys."""
        return APPLICATION_KEYS in self._cells.mode

    @property
    def scrolls_whole(self) -> bool:
        """Whether a line feed at the bottom moves every row."""
        return self._cells.margins is None

    def feed(self, text: str) -> None:
        """Show the next output."""
        at = 0
        for match in SEQUENCE.finditer(text):
            if match.start() > at:
                self._plain(text[at : match.start()])
            at = match.end()
            self._sequence(*match.group("parameters", "between", "final", "command", "designator", "designated"))
            if (escape := match["escape"] or AS_ESCAPE.get(match["eight_bit"] or "")) is not None:
                self._cells.escape(escape)
        self._plain(text[at:])

    def replies(self) -> bytes:
        """What the terminal answers to the questions of programs since the last call."""
        said = "".join(self._cells.replies)
        self._cells.replies.clear()
        return said.encode()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size. Rows leave at the top only when the cursor would fall out at the bottom."""
        self._cells.resize(rows, columns)

    def snapshot(self) -> Screen:
        """What is shown now."""
        cells = self._cells
        return Screen(
            rows=tuple(cells.row(y) for y in range(cells.lines)),
            cursor_row=cells.cursor.y,
            cursor_column=cells.cursor.x,
            title=cells.title,
            alternate=cells.primary is not None,
        )

    def _plain(self, text: str) -> None:
        at = 0
        for place, char in enumerate(text):
            if char < " " or char == "\x7f":
                if place > at:
                    self._cells.draw(text[at:place])
                at = place + 1
                if (act := CONTROLS.get(char)) is not None:
                    act(self._cells)
        if at < len(text):
            self._cells.draw(text[at:])

    def _sequence(
        self,
        parameters: str | None,
        between: str | None,
        final: str | None,
        command: str | None,
        designator: str | None,
        designated: str | None,
    ) -> None:
        if final is not None:
            self._cells.control(parameters or "", between or "", final)
        elif command is not None:
            self._cells.operate(command)
        elif designator is not None and designated is not None:
            self._cells.designate(designator, designated)
