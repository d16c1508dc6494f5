"""Texts as the scrubber's rules read them: in pieces of bounded size, as they stand and decoded.

A value may be cut by colours of a terminal, by a line continuation of the shell or by escapes of JSON and of URLs.
The decoded view has none of these, and tells for each stretch what stood for it in the text, so that a value found in
the view is replaced in the text by plain comparison. Decoding happens once: what was escaped twice is not seen.

Not here: what is looked for (secrets.py, personal.py, own_host.py).
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

PIECE = 1 << 20
"""Characters that are looked at in one go."""
BETWEEN = "\n\0\n"
"""Stands between two texts that are read together; no value goes across it."""
OVERLAP = 1 << 14
"""Characters that two pieces share: a value that is no longer than this stands whole in one of them."""

_COLOUR = r"\[[0-9;?]*[ -/]*[@-~]"
_CODED = re.compile(
    rf"\x1b{_COLOUR}|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\\(?:u001[bB]|x1[bB]|033){_COLOUR}|\\\r?\n"
    r"""|\\u[0-9a-fA-F]{4}|\\x[0-7][0-9a-fA-F]|\\[nrtbf"'/\\]|%(?:[24][0bBdDfF]|25|3[aAdD])"""
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class Hit(NamedTuple):
    """What a rule found in a view."""

    kind: str
    """Group and kind, e.g. `secret.github_pat`, `personal.email`, `host.path`."""
    start: int
    end: int
    hidden: int
    """Where the part begins that a placeholder stands for; what is before it stays, e.g. `/home/`."""


class View:
    """One reading of a text."""

    def __init__(self, raw: str, *, decoded: bool = False, codes: Sequence[re.Match[str]] = ()) -> None:
        """`codes`: every code of the text, in order; needed by both readings where there are any."""
        self._raw = raw
        self._decoded = decoded
        self._codes = codes
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []
        """For each stretch of the view where it begins in the raw text, and how long a code is (0: plain text)."""
        self.text = self._read() if decoded else raw

    @functools.cached_property
    def lower(self) -> str:
        """The text in small letters, as long as the text itself: one letter alone would become two."""
        return self.text.replace("İ", "i").lower()

    def beginning(self, words: Iterable[str], rule: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches of a rule that begins with one of the words (in small letters), whatever case they have here.

        Looking for the words first is ten times as fast as letting the rule look for itself.
        """
        for word in words:
            at = self.lower.find(word)
            while at >= 0:
                if found := rule.match(self.text, at):
                    yield found
                at = self.lower.find(word, at + len(word))

    def raw(self, start: int, end: int) -> str:
        """What stands in the text for a stretch of the view."""
        if not self._decoded:
            return self._raw[start:end]
        return self._raw[self._place(start)[0] : self._place(end - 1)[1]] if end > start else ""

    def splits_code(self, start: int) -> bool:
        """Whether a stretch begins inside of a code, e.g. with the `n` of a line break: only decoded it is right."""
        if self._decoded or not self._codes:
            return False
        index = bisect_left(self._codes, start, key=re.Match.start) - 1
        return index >= 0 and start < self._codes[index].end()

    def _place(self, at: int) -> tuple[int, int]:
        index = bisect_right(self._starts, at) - 1
        place, width = self._places[index]
        begin = place if width else place + at - self._starts[index]
        return begin, begin + (width or 1)

    def _read(self) -> str:
        parts: list[str] = []
        length = done = 0
        for code in self._codes:
            for part, width in ((self._raw[done : code.start()], 0), (_meaning(code[0]), len(code[0]))):
                if part:
                    self._starts.append(length)
                    self._places.append((code.start() if width else done, width))
                    parts.append(part)
                    length += len(part)
            done = code.end()
        self._starts.append(length)
        self._places.append((done, 0))
        return "".join([*parts, self._raw[done:]])


def views(texts: Iterable[str]) -> Iterator[View]:
    """Texts in pieces as they stand, and decoded where that differs; short texts share a piece."""
    for piece in _joined(texts):
        codes = list(_CODED.finditer(piece))
        yield View(piece, codes=codes)
        if codes:
            yield View(piece, decoded=True, codes=codes)


def _joined(texts: Iterable[str]) -> Iterator[str]:
    waiting: list[str] = []
    size = 0
    for text in texts:
        if size + len(text) > PIECE:
            yield BETWEEN.join(waiting)
            waiting, size = [], 0
        if len(text) > PIECE:
            yield from _pieces(text)
        else:
            waiting.append(text)
            size += len(text)
    yield BETWEEN.join(waiting)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        # A value is not cut where lines end.
        end = max(text.rfind("\n", end - OVERLAP // 4, end) + 1, 0) or end
        yield text[start:end]
        start = end - OVERLAP
        start = text.find("\n", start, start + OVERLAP // 4) + 1 or start
    yield text[start:]


def _meaning(code: str) -> str:
    """The one character a code stands for; nothing for colours and line continuations."""
    if code[0] == "%":
        return chr(int(code[1:], 16))
    if code[0] != "\\" or code[1] in "\r\n" or "[" in code:
        return ""
    if code[1] in "ux" and len(code) > 2:
        return chr(int(code[2:], 16))
    return _LETTERS.get(code[1], code[1])
