"""Terminal output as plain text: escape sequences gone, overwritten text gone.

What full-screen programs showed is drawn by terminals/screen.py; decoding and cutting are in output.py.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sandbox.escape_grammar import SEQUENCE
from sandbox.terminals.screen import ScreenModel

ROWS, COLUMNS = 24, 80
# Drawing costs some ten times what cleaning costs, and each screen costs what many characters do.
DRAWN_CHARACTERS = 50_000
_SCREEN_COST = 1000
_ALTERNATE = re.compile(r"(?:\x1b\[|\x9b)\?(?:\d+;){0,8}(?:1049|1047|47)(?:;\d+){0,8}([hl])")
_ESCAPE = re.compile(r"[\x1b\x80-\x9f]")
_UNSEEN = re.compile(r"[\x00-\x08\x0d-\x1f\x7f]")
# What a sequence erases of its line is kept through the cleaning as one character.
_TO_END, _WHOLE = "\x01", "\x02"
_OVERWRITING = re.compile(rf"[\r\b{_WHOLE}]")
_MARKERS = re.compile(f"[{_TO_END}{_WHOLE}]")
_KEPT = re.compile(r"(?:\x1b\[|\x9b)(?:(?P<erase>[02]?)K|(?P<home>1?)G|(?P<back>\d{0,4})D)")
_WRITING = re.compile(rf"[\r{_TO_END}{_WHOLE}]|[\b]+|[^\r\b{_TO_END}{_WHOLE}]+")
# Where a cursor stays in a line that was erased under it: no line of a screen is longer.
_FARTHEST = 200


def clean(text: str, *, rows: int = ROWS, columns: int = COLUMNS) -> str:
    """The text as a person would have read it, with no control characters but tab and newline.

    A carriage return and a backspace let later text replace earlier text of the same line, by characters and not by
    columns. What a full-screen program wrote is replaced by its last screen, of `rows` and `columns`, or by a note
    when there is too much to draw. Cleaning clean text changes nothing. Takes time in proportion to the text.
    """
    if _ESCAPE.search(text) is None:
        return _plain(text)
    places, alternate = [(0, False)], False
    for match in _ALTERNATE.finditer(text):
        if (match[1] == "h") != alternate:
            alternate = not alternate
            places.append((match.start(), alternate))
    left = DRAWN_CHARACTERS
    shown = []
    for (start, full_screen), (end, _) in pairwise([*places, (len(text), False)]):
        if not full_screen:
            shown.append(_plain(text[start:end]))
        elif end - start <= left:
            left -= end - start + _SCREEN_COST
            shown.append(_last_screen(text[start:end], rows, columns))
        elif SEQUENCE.sub("", text[start:end]).strip():
            shown.append(f"\n[... {end - start} characters of a full-screen program left out ...]\n")
    return "".join(shown)


def _last_screen(text: str, rows: int, columns: int) -> str:
    """Empty when the program had shown nothing, or had wiped what it showed."""
    model = ScreenModel(rows, columns)
    model.feed(text)
    screen = _plain(model.snapshot().text)
    return f"\n[full-screen program, its last screen:]\n{screen}\n[end of the screen]\n" if screen else ""


def _plain(text: str) -> str:
    text = _MARKERS.sub("", text)
    if _ESCAPE.search(text):
        text = SEQUENCE.sub("", _KEPT.sub(_as_marker, text))
    text = text.replace("\r\n", "\n").replace("\v", "\n").replace("\f", "\n")
    if _OVERWRITING.search(text):
        text = "\n".join(_overwritten(line) if _OVERWRITING.search(line) else line for line in text.split("\n"))
    return _UNSEEN.sub("", text)


def _as_marker(match: re.Match[str]) -> str:
    if (erased := match["erase"]) is not None:
        return _WHOLE if erased == "2" else _TO_END
    return "\r" if match["home"] is not None else "\b" * min(int(match["back"] or 1), _FARTHEST)


def _overwritten(line: str) -> str:
    """What a line shows in the end, without the blanks at its end."""
    cells: list[str] = []
    at = 0
    # Output that went through two terminals ends its lines with several carriage returns.
    for match in _WRITING.finditer(line.rstrip("\r")):
        piece = match[0]
        if piece == "\r":
            at = 0
        elif piece[0] == "\b":
            at = max(0, at - len(piece))
        elif piece == _TO_END:
            del cells[at:]
        elif piece == _WHOLE:
            cells.clear()
            at = min(at, _FARTHEST)
        else:
            visible = _UNSEEN.sub("", piece)
            cells.extend(" " * (at - len(cells)))
            cells[at : at + len(visible)] = visible
            at += len(visible)
    return "".join(cells).rstrip(" ")
