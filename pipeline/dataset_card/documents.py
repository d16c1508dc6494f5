"""All documents of a version: README.md, report.html and plots."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.cards import front_matter
from pipeline.dataset_card.facts import CardFacts
from pipeline.dataset_card.figures import figures_of
from pipeline.dataset_card.markdown import markdown
from pipeline.dataset_card.page import page
from pipeline.dataset_card.sections import card_of
from pipeline.snapshots.publishing import Draft


def documents(draft: Draft, facts: CardFacts) -> Mapping[str, str | bytes]:
    """What describes a version of which the working tables say `facts`: path -> content."""
    card = card_of(draft, figures_of(draft), facts)
    return {
        "README.md": f"{front_matter(draft)}\n{markdown(card)}",
        "report.html": page(card),
        **{picture.path: picture.png for picture in card.pictures},
    }
