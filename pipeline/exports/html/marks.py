"""Hostile text as HTML that only shows it: escaped, with what a reader would not see written out as visible marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from markupsafe import Markup, escape

MOST_CHARACTERS = 20_000
"""More of one text is cut, three parts of its beginning and one of its end kept."""

_AS_PICTURE = "\ufe0f"
"""Said behind a symbol to have it in colour; elsewhere, and more than once, it hides something."""
_SELECTORS = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_IGNORABLE = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Printable by their category, yet nothing is seen of them."""
_SEQUENCE = r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|[ -/]{0,8}[0-~])"
"""An escape sequence of a terminal, e.g. a colour: one mark, since nobody wants to read it apart."""
_SUSPECT = re.compile(rf"(?P<piece>{_SEQUENCE}|[^\x20-\x7e\n\t])(?P=piece)*")
_SHORTEST_RUN = 4


def marked(text: object) -> Markup:
    """`text` for HTML: cut to MOST_CHARACTERS, escaped, each thing that cannot be seen in an element of its own."""
    found = [escape(part) if seen else Markup("<i>{}</i>").format(part) for part, seen in _parts(shortened(str(text)))]
    return Markup("").join(found)


def marked_line(text: object) -> Markup:
    """The same for text that stands in a line, such as keys: breaks and tabs are marks, too."""
    breaks = re.split(r"([\n\t])", shortened(str(text)))
    return Markup("").join(
        Markup("<i>{}</i>").format(_mark(one)) if one in ("\n", "\t") else marked(one) for one in breaks
    )


def visible_text(text: str) -> str:
    """`text` with the same marks as plain text, for places that hold no elements."""
    return "".join(part for part, _ in _parts(text))


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """`text`, or its beginning and its end with a note between them that says how much is missing."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most // 4
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters are not shown …]\n{text[-tail:]}"


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """What is seen as it stands (True) and marks (False), in order; a run of one unseen thing is one mark."""
    last = 0
    for match in _SUSPECT.finditer(text):
        piece, start = match["piece"], match.start()
        if _is_seen(piece, text[start - 1 : start]):
            continue
        if start > last:
            yield text[last:start], True
        times = len(match.group()) // len(piece)
        yield f"{_mark(piece)}×{times}" if times >= _SHORTEST_RUN else _mark(piece) * times, False
        last = match.end()
    if last < len(text):
        yield text[last:], True


def _is_seen(piece: str, before: str) -> bool:
    if len(piece) > 1 or piece in _IGNORABLE:
        return False
    if piece == _AS_PICTURE and before and unicodedata.category(before) == "So":
        return True
    return piece.isprintable() and not _SELECTORS.match(piece)


def _mark(piece: str) -> str:
    r"""As a Python string has it, which needs no rare glyphs: `\x1b[31m`, `\u202e`."""
    return ascii(piece[0])[1:-1] + piece[1:]
