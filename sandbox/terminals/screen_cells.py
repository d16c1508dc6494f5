"""The cells of a terminal's screen: pyte keeps them, and here is what pyte lacks.

That is the alternate screen, scrolling by sequence, repetition, line drawing, wide characters at the edge, and being
safe from any parameter. Colours are not kept. Taking sequences apart is in screen.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import pyte
from pyte import charsets, modes
from pyte.screens import Char, Margins, StaticDefaultDict
from wcwidth import wcwidth

LARGEST_PARAMETER = 9999
LONGEST_CELL = 8
LONGEST_TITLE = 500
# Private modes that switch to the alternate screen; 1049 and 1047 clear it, 1049 keeps the cursor too.
ALTERNATE_MODES = frozenset({47, 1047, 1049})
_SAVE_CURSOR_MODE = 1048
# pyte numbers private modes as others shifted, so one could be set by the other's number. Cursor keys, origin, wrapping
# and the sight of the cursor; insertion and new lines.
_PRIVATE_MODES = frozenset({1, 6, 7, 25})
_PUBLIC_MODES = frozenset({4, 20})
APPLICATION_KEYS = 1 << 5


class _Place(NamedTuple):
    """What is saved with the cursor."""

    x: int
    y: int
    charset: int
    g0: str
    g1: str
    origin: bool
    wrap: bool


class Cells(pyte.Screen):
    """The cells, the cursor and the modes of one terminal. `primary` is what waits behind the alternate screen."""

    def __init__(self, columns: int, lines: int) -> None:
        self.primary: dict[int, StaticDefaultDict[int, Char]] | None = None
        self.replies: list[str] = []
        self._saved: dict[bool, _Place] = {}
        self._last = " "
        super().__init__(columns, lines)

    def reset(self) -> None:
        """The initial state."""
        self.primary = None
        self._saved.clear()
        super().reset()

    def write_process_input(self, data: str) -> None:
        """An answer to the program; only so many are kept for one that never reads."""
        if len(self.replies) < LONGEST_TITLE:
            self.replies.append(data)

    def row(self, y: int) -> str:
        """Text of one row."""
        line = self.buffer[y]
        last = max((x for x in line if line[x].data != " "), default=-1)
        return "".join(line[x].data for x in range(min(last + 1, self.columns))).rstrip(" ")

    def draw(self, data: str) -> None:
        """Put characters at the cursor."""
        table = self.g1_charset if self.charset else self.g0_charset
        if table is not charsets.LAT1_MAP:
            data = data.translate(table)
        insert = modes.IRM in self.mode
        for char in data:
            width = 1 if " " <= char <= "~" else wcwidth(char)
            if width <= 0:
                if width == 0 and unicodedata.combining(char):
                    self._combine(char)
                continue
            self._make_room(width)
            if insert:
                self.insert_characters(width)
            self._put(char, width)
        self._last = data[-1:] or self._last

    def _make_room(self, width: int) -> None:
        """A character that does not fit starts a new row, or takes the place of the last ones when rows do not wrap."""
        if self.cursor.x + width <= self.columns:
            return
        if modes.DECAWM in self.mode:
            self.cursor.x = 0
            self.index()
        else:
            self.cursor.x = max(0, self.columns - width)

    def _put(self, char: str, width: int) -> None:
        line, x = self.buffer[self.cursor.y], self.cursor.x
        if x in line and line[x].data == "" and x > 0:
            line[x - 1] = _cell(" ")
        if (after := line.get(x + width)) is not None and after.data == "":
            line[x + width] = _cell(" ")
        line[x] = _cell(char)
        if width == 2 and x + 1 < self.columns:
            line[x + 1] = _cell("")
        self.cursor.x = min(x + width, self.columns)

    def _combine(self, char: str) -> None:
        """Join an accent to the character before it."""
        line, x = self.buffer[self.cursor.y], self.cursor.x - 1
        while x > 0 and line[x].data == "":
            x -= 1
        if x >= 0 and 0 < len(line[x].data) < LONGEST_CELL:
            line[x] = _cell(unicodedata.normalize("NFC", line[x].data + char))

    def control(self, parameters: str, between: str, final: str) -> None:
        """Act on a CSI sequence; one that is not known does nothing."""
        mark = parameters[:1] if parameters[:1] in "<=>?" else ""
        if between == "!" and final == "p":
            self._soft_reset()
        if between or mark not in ("", "?"):
            return
        # Sub-parameters occur in colours only.
        numbers = [_number(part) for part in parameters[len(mark) :].split(";")]
        if final in "hl":
            self._switch(numbers, private=bool(mark), on=final == "h")
        elif final in "JK":
            if numbers[0] <= (3 if final == "J" else 2):
                (self.erase_in_display if final == "J" else self.erase_in_line)(numbers[0])
        elif not mark and (act := _CSI.get(final)) is not None:
            act(self, [*numbers, 0])

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Blank the row from the cursor (0), up to it (1) or all of it (2)."""
        first = self.cursor.x if how == 0 else 0
        last = self.cursor.x if how == 1 else self.columns
        line = self.buffer[self.cursor.y]
        for x in [x for x in line if first <= x <= last]:
            del line[x]

    def erase_in_display(self, how: int = 0, *args: object, **kwargs: object) -> None:
        """Blank the screen from the cursor (0), up to it (1) or all of it (2); 3 is the history, which is not kept."""
        if how == 3:
            return
        first = self.cursor.y + 1 if how == 0 else 0
        last = self.cursor.y - 1 if how == 1 else self.lines
        for y in [y for y in self.buffer if first <= y <= last]:
            del self.buffer[y]
        if how < 2:
            self.erase_in_line(how)

    def insert_characters(self, count: int | None = None) -> None:
        """Move the rest of the row to the right; what leaves it is gone."""
        super().insert_characters(count)
        self.buffer[self.cursor.y].pop(self.columns, None)

    def _switch(self, numbers: list[int], *, private: bool, on: bool) -> None:
        for number in numbers:
            if private and number in ALTERNATE_MODES:
                self._alternate(on, number == 1049)
            elif private and number == _SAVE_CURSOR_MODE:
                (self.save_cursor if on else self.restore_cursor)()
            elif number in (_PRIVATE_MODES if private else _PUBLIC_MODES):
                (self.set_mode if on else self.reset_mode)(number, private=private)

    def _alternate(self, on: bool, with_cursor: bool) -> None:
        if on and self.primary is None:
            if with_cursor:
                self.save_cursor()
            self.primary = dict(self.buffer)
            self.buffer.clear()
        elif not on and self.primary is not None:
            self.buffer.clear()
            self.buffer.update({y: line for y, line in self.primary.items() if y < self.lines})
            self.primary = None
            if with_cursor:
                self.restore_cursor()

    def save_cursor(self) -> None:
        """One place per screen, as in xterm; pyte's stack grows without end."""
        self._saved[self.primary is not None] = _Place(
            self.cursor.x,
            self.cursor.y,
            self.charset,
            self.g0_charset,
            self.g1_charset,
            modes.DECOM in self.mode,
            modes.DECAWM in self.mode,
        )

    def restore_cursor(self) -> None:
        """Back to the saved place, or to the top left when none was saved."""
        saved = self._saved.get(self.primary is not None)
        if saved is None:
            self.mode.discard(modes.DECOM)
            self.cursor_position()
            return
        self.charset, self.g0_charset, self.g1_charset = saved.charset, saved.g0, saved.g1
        for mode, on in ((modes.DECOM, saved.origin), (modes.DECAWM, saved.wrap)):
            (self.mode.add if on else self.mode.discard)(mode)
        self.cursor.x, self.cursor.y = min(saved.x, self.columns), min(saved.y, self.lines - 1)

    def _soft_reset(self) -> None:
        self.mode -= {modes.IRM, modes.DECOM, APPLICATION_KEYS}
        self.mode |= {modes.DECAWM, modes.DECTCEM}
        self.margins = None
        self.charset, self.g0_charset, self.g1_charset = 0, charsets.LAT1_MAP, charsets.VT100_MAP
        self._saved.clear()

    def operate(self, command: str) -> None:
        """Act on an operating system command (OSC): only the titles matter here."""
        code, _, rest = command.rstrip("\x07\x1b\\\x9c").partition(";")
        if code in ("0", "2"):
            self.set_title("".join(char for char in rest if char.isprintable())[:LONGEST_TITLE])

    def designate(self, designator: str, designated: str) -> None:
        """Choose a character set."""
        if designator in ("(", ")"):
            table = charsets.VT100_MAP if designated == "0" else charsets.LAT1_MAP
            if designator == "(":
                self.g0_charset = table
            else:
                self.g1_charset = table

    def escape(self, char: str) -> None:
        """Act on ESC with one character."""
        if (act := ESCAPES.get(char)) is not None:
            act(self)

    def scroll(self, count: int, up: bool) -> None:
        """Move the rows within the margins; the cursor stays."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        moved = {y: self.buffer.pop(y) for y in range(top, bottom + 1) if y in self.buffer}
        for y, line in moved.items():
            if top <= (place := y - count if up else y + count) <= bottom:
                self.buffer[place] = line

    def repeat(self, count: int) -> None:
        """Print the last character again, at most a row of them."""
        self.draw(self._last * min(count, self.columns))

    def next_line(self) -> None:
        """To the start of the next row."""
        self.carriage_return()
        self.index()

    def forward_tab(self, count: int) -> None:
        """To a later tab stop."""
        stops = sorted(stop for stop in self.tabstops if stop > self.cursor.x)
        self.cursor.x = min(stops[count - 1] if count <= len(stops) else self.columns, self.columns - 1)

    def back_tab(self, count: int) -> None:
        """To an earlier tab stop."""
        stops = sorted((stop for stop in self.tabstops if stop < self.cursor.x), reverse=True)
        self.cursor.x = stops[count - 1] if count <= len(stops) else 0

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size of the screen that is shown and of the one that waits behind it."""
        lines, columns = lines or self.lines, columns or self.columns
        lost = max(0, self.cursor.y - lines + 1)
        kept = {y - lost: line for y, line in self.buffer.items() if 0 <= y - lost < lines}
        self.buffer.clear()
        self.buffer.update(kept)
        for line in self.buffer.values():
            for x in [x for x in line if x >= columns]:
                del line[x]
        self.lines, self.columns, self.margins = lines, columns, None
        self.tabstops |= set(range(8, columns, 8))
        self.cursor.y -= lost
        self.cursor.x = min(self.cursor.x, columns)

    def move(self, down: int = 0, right: int = 0) -> None:
        """Move the cursor; margins hold it only when it starts between them."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        lowest = bottom if self.cursor.y <= bottom else self.lines - 1
        highest = top if self.cursor.y >= top else 0
        self.cursor.y = min(max(self.cursor.y + down, highest), lowest)
        if right:
            x = min(self.cursor.x, self.columns - 1)
            self.cursor.x = min(max(x + right, 0), self.columns - 1)

    def report(self, what: int) -> None:
        """Answer whether all is well (5), or where the cursor is (6)."""
        if what == 5:
            self.write_process_input("\x1b[0n")
        elif what == 6:
            above = self.margins.top if self.margins is not None and modes.DECOM in self.mode else 0
            self.write_process_input(f"\x1b[{self.cursor.y - above + 1};{min(self.cursor.x + 1, self.columns)}R")


def _number(text: str) -> int:
    """A parameter; 0 when it is missing or nonsense."""
    return min(int(text[:5]), LARGEST_PARAMETER) if text.isascii() and text.isdigit() else 0


@lru_cache(maxsize=4096)
def _cell(data: str) -> Char:
    return Char(data)


CONTROLS: dict[str, Callable[[Cells], None]] = {
    "\b": Cells.backspace,
    "\t": lambda cells: cells.forward_tab(1),
    "\n": Cells.linefeed,
    "\v": Cells.linefeed,
    "\f": Cells.linefeed,
    "\r": Cells.carriage_return,
    "\x0e": Cells.shift_out,
    "\x0f": Cells.shift_in,
}
ESCAPES: dict[str, Callable[[Cells], None]] = {
    "7": Cells.save_cursor,
    "8": Cells.restore_cursor,
    "D": Cells.index,
    "E": Cells.next_line,
    "H": Cells.set_tab_stop,
    "M": Cells.reverse_index,
    "c": Cells.reset,
}
AS_ESCAPE = {"\x84": "D", "\x85": "E", "\x88": "H", "\x8d": "M"}
_CSI: dict[str, Callable[[Cells, list[int]], None]] = {
    "@": lambda cells, n: cells.insert_characters(n[0]),
    "A": lambda cells, n: cells.move(down=-(n[0] or 1)),
    "B": lambda cells, n: cells.move(down=n[0] or 1),
    "C": lambda cells, n: cells.move(right=n[0] or 1),
    "D": lambda cells, n: cells.move(right=-(n[0] or 1)),
    "E": lambda cells, n: cells.move(down=n[0] or 1, right=-cells.columns),
    "F": lambda cells, n: cells.move(down=-(n[0] or 1), right=-cells.columns),
    "G": lambda cells, n: cells.cursor_to_column(n[0]),
    "H": lambda cells, n: cells.cursor_position(n[0], n[1]),
    "I": lambda cells, n: cells.forward_tab(n[0] or 1),
    "L": lambda cells, n: cells.insert_lines(n[0]),
    "M": lambda cells, n: cells.delete_lines(n[0]),
    "P": lambda cells, n: cells.delete_characters(n[0]),
    "S": lambda cells, n: cells.scroll(n[0] or 1, up=True),
    "T": lambda cells, n: cells.scroll(n[0] or 1, up=False),
    "X": lambda cells, n: cells.erase_characters(n[0]),
    "Z": lambda cells, n: cells.back_tab(n[0] or 1),
    "`": lambda cells, n: cells.cursor_to_column(n[0]),
    "a": lambda cells, n: cells.move(right=n[0] or 1),
    "b": lambda cells, n: cells.repeat(n[0] or 1),
    "c": lambda cells, n: cells.write_process_input("\x1b[?6c"),
    "d": lambda cells, n: cells.cursor_position(n[0], cells.cursor.x + 1),
    "e": lambda cells, n: cells.move(down=n[0] or 1),
    "f": lambda cells, n: cells.cursor_position(n[0], n[1]),
    "g": lambda cells, n: cells.clear_tab_stop(n[0]),
    "n": lambda cells, n: cells.report(n[0]),
    "r": lambda cells, n: cells.set_margins(n[0], n[1] or cells.lines),
    "s": lambda cells, n: cells.save_cursor(),
    "u": lambda cells, n: cells.restore_cursor(),
}
