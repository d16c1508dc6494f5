"""What a card consists of, whatever it is written as.

Words of paragraphs, bullets, headings and pictures are ours, with code between backticks. Cells of tables are anybody's
and may say anything: who writes them escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

_SHARE = re.compile(r"(?:[<>] )?[0-9.]+%|–")
"""What `percent` writes."""

Cell = str | int | float | None


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    language: str
    text: str


@dataclass(frozen=True)
class Table:
    """Numbers and shares stand to the right."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Of each column whether it holds numbers or shares alone."""
        columns = [[row[place] for row in self.rows if row[place] is not None] for place in range(len(self.head))]
        return tuple(bool(cells) and all(map(_is_number, cells)) for cells in columns)


@dataclass(frozen=True)
class Picture:
    """Drawn when a document asks for it: drawing takes longer than all the rest of a card."""

    path: str
    """In the version."""
    alt: str
    draw: Callable[[], bytes]

    @cached_property
    def png(self) -> bytes:
        return self.draw()


@dataclass(frozen=True)
class Exhibit:
    """A picture with the numbers in it."""

    picture: Picture
    table: Table


Block = Paragraph | Bullets | Code | Table | Exhibit


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Card:
    title: str
    sections: tuple[Section, ...]

    @property
    def pictures(self) -> list[Picture]:
        return [block.picture for section in self.sections for block in section.blocks if isinstance(block, Exhibit)]


def written(cell: Cell) -> str:
    """A number as people read it; text as it is."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or _SHARE.fullmatch(cell) is not None


def percent(part: int, whole: int) -> str:
    """A share that is not all never reads as all, and one that is not nothing never as nothing."""
    if not whole:
        return "–"
    text = f"{part / whole:.1%}"
    if text == "100.0%" and part < whole:
        return "> 99.9%"
    return "< 0.1%" if text == "0.0%" and part else text
