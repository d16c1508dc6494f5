"""Makes a flood of terminal output short before it is drawn: what scrolled away need not be drawn at all.

Drawing a megabyte takes the better part of a second, and `yes` writes hundreds of them. Drawing is in screen.py.
"""

from __future__ import annotations

import re

from sandbox.escape_grammar import SEQUENCE
from sandbox.terminals.screen_cells import ALTERNATE_MODES

# Shorter stretches are drawn as they are.
WORTHWHILE = 16_000
# More than this is never drawn at once; see `shortened`.
MOST = 128_000
# Every sequence but these may move the cursor up, or change how rows scroll.
_FORWARD = re.compile(
    r"(?:\x1b\[|\x9b)(?:[0-9;:]*[mnKt]|[?>=<][0-9;:]*[cmnu]|[0-9;]* q|\?[0-9;]+[hl])"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b(?:[()*+][0-~]|[=>\\])"
)
_UNFORWARD_MODES = frozenset({3, 5, 6, 1048}) | ALTERNATE_MODES
_LONG_RUN = re.compile(r"[ -~]{4096,}")
_SHIFTS = re.compile(r"[\x0e\x0f]")


def shortened(text: str, rows: int, columns: int, *, scrolls_whole: bool) -> str:
    """Output that leaves a screen of this size as `text` leaves it, and is short even when `text` is not.

    Lines that only scroll by, between sequences that do more than write and move on, shrink to those that can still be
    seen, and to the modes that were set in the others. So do long lines of ASCII. `scrolls_whole` says whether at the
    start every row of the screen scrolls. What is still longer than MOST after that (a full-screen program that draws
    faster than it is looked at) loses its beginning but for modes; its next full redraw makes the screen right again.
    """
    if len(text) <= WORTHWHILE:
        return text
    text = _LONG_RUN.sub(lambda run: _short_run(run[0], rows, columns), text)
    parts: list[str] = []
    start = 0
    for match in SEQUENCE.finditer(text):
        if _is_forward(match[0]):
            continue
        parts.append(_scrolled(text[start : match.start()], rows) if scrolls_whole else text[start : match.start()])
        parts.append(match[0])
        start = match.end()
        scrolls_whole = _scrolls_after(match, rows, scrolls_whole)
    parts.append(_scrolled(text[start:], rows) if scrolls_whole else text[start:])
    short = "".join(parts)
    if len(short) <= MOST:
        return short
    cut = _line_start(short, len(short) - MOST)
    return _modes(short[:cut], keep_all=True) + short[cut:]


def _is_forward(sequence: str) -> bool:
    if _FORWARD.fullmatch(sequence) is None:
        return False
    if sequence[-1] not in "hl" or "?" not in sequence[:3]:
        return True
    return _UNFORWARD_MODES.isdisjoint(int(number[:5]) for number in re.findall(r"\d+", sequence))


def _scrolls_after(match: re.Match[str], rows: int, before: bool) -> bool:
    """Whether every row scrolls after a sequence that may set margins."""
    if match["escape"] == "c" or (match["final"], match["between"]) == ("p", "!"):
        return True
    if match["final"] == "r":
        return match["parameters"] in ("", "1", "0", f"1;{rows}", f";{rows}", f"0;{rows}")
    return before


def _short_run(run: str, rows: int, columns: int) -> str:
    """A run of characters one column wide, shorter by whole rows; what is left fills the screen twice."""
    spare = len(run) - (2 * rows + 2) * columns
    # The first row stays for screens on which long lines do not wrap.
    return run if spare < columns else run[:columns] + run[columns + spare // columns * columns :]


def _scrolled(text: str, rows: int) -> str:
    """Forward-only output, shortened when its last lines alone decide what is seen.

    After twice as many line feeds as there are rows, each row was new and empty when it came up. The lines must start
    in the first column for that, which CR makes sure.
    """
    if len(text) <= WORTHWHILE:
        return text
    cut = len(text)
    for _ in range(2 * rows + 2):
        cut = text.rfind("\n", 0, cut)
        if cut < 0:
            return text
    cut = text.rfind("\r\n", 0, cut + 1)
    return text if cut < 0 else _modes(text[:cut], keep_all=False) + text[cut:]


def _modes(text: str, *, keep_all: bool) -> str:
    """The sequences of a text that still matter when the text does not: of each kind the last."""
    kept: dict[str, str] = {}
    for match in SEQUENCE.finditer(text):
        sequence = match[0]
        if match["command"] is not None:
            code = match["command"].partition(";")[0]
            key = "title" if code in ("0", "2") else ""
        elif match["final"] is not None:
            key = _control_key(match, keep_all)
        else:
            key = sequence[:2] if match["designator"] or (keep_all and sequence[1:] in ("7", "8", "c")) else ""
        if key:
            kept.pop(key, None)
            kept[key] = sequence
    shifts = _SHIFTS.findall(text)
    return "".join([*kept.values(), *shifts[-1:]])


def _control_key(match: re.Match[str], keep_all: bool) -> str:
    final = match["final"]
    if final in "hl" or (keep_all and final == "r"):
        return f"{final if final == 'r' else 'mode'} {match['parameters']}"
    # A program waits for the answer to a question.
    return match[0] if final in "nc" else ""


def _line_start(text: str, at: int) -> int:
    """The first place from `at` that is surely between two sequences: behind a line feed, or before ESC."""
    places = [place for place in (text.find("\n", at) + 1, text.find("\x1b[", at)) if place > at]
    return min(places, default=at)
