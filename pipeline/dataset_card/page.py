"""A card as one page that needs nothing else: no script, no network, pictures and style in it.

A policy lets a browser take that one style and those pictures and nothing more, whatever a text may smuggle past the
escaping.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from pipeline.dataset_card.content import Card, Cell, written
from pipeline.dataset_card.markdown import MOST_CELL
from pipeline.exports.html.marks import marked_line, shortened

GENERATOR = "touchstone dataset card"
_HERE = Path(__file__).parent


def page(card: Card) -> str:
    style = (_HERE / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ours": _ours, "cell": _cell, "slug": _slug, "kind": _kind, "data": _data}
    return environment.get_template("report.html").render(
        card=card,
        style=Markup(style),
        policy=f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        generator=GENERATOR,
    )


def _ours(text: str) -> Markup:
    """Words of ours, with code between backticks."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(one) if at % 2 else escape(one) for at, one in enumerate(parts)
    )


def _cell(cell: Cell) -> Markup:
    return marked_line(shortened(written(cell), MOST_CELL))


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _kind(block: object) -> str:
    return type(block).__name__


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
