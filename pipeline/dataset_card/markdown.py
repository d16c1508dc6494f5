"""A card as Markdown. What stands in tables is only shown there: never a link, a picture, HTML or another cell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.dataset_card.content import Block, Bullets, Card, Cell, Code, Exhibit, Paragraph, Table, written
from pipeline.exports.html.marks import shortened, visible_text

MOST_CELL = 300
"""Characters of a cell."""
_BREAK = re.compile(r"[\n\t]")
_SPECIAL = re.compile(r"[\\`*\[\]|~#!${}]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINKED = re.compile(r"(?i):(?=//)|(?<=www)\.|@|(?<=mailto):|(?<=xmpp):")
"""Where some renderers make a link or a mention of plain text."""


def markdown(card: Card) -> str:
    parts = [f"# {card.title}"]
    for section in card.sections:
        parts.append(f"## {section.title}")
        parts += map(_block, section.blocks)
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """One line of Markdown that shows `text` and does nothing else; what cannot be seen is written out."""
    line = _BREAK.sub(lambda match: ascii(match.group())[1:-1], visible_text(shortened(text, MOST_CELL)))
    safe = _SPECIAL.sub(lambda match: f"\\{match.group()}", line)
    safe = _LINKED.sub(lambda match: f"\\{match.group()}", safe)
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return text
        case Bullets(items):
            return "\n".join(f"- {item}" for item in items)
        case Code(language, text):
            return f"```{language}\n{text}\n```"
        case Table():
            return _table(block)
        case Exhibit(picture, table):
            return f"![{picture.alt}]({picture.path})\n\n{_table(table)}"


def _table(table: Table) -> str:
    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [_line(table.head), _line(rule, as_it_is=True), *map(_line, table.rows)]
    return f"**{table.caption}**\n\n" + "\n".join(lines)


def _line(cells: Sequence[Cell], as_it_is: bool = False) -> str:
    return "| " + " | ".join(str(cell) if as_it_is else escaped(written(cell)) for cell in cells) + " |"
