"""The card of a version: what a careful trainer wants to know, as README.md, as one page and as pictures.

    facts.py     what only the working tables know: funnel, gates, yields, replays, curation
    figures.py   what the files of the version say, counted by DuckDB
    meanings.py  what each column means
    plots.py     pictures
    sections.py  the content of the card, from all of these
    markdown.py  … as README.md
    page.py      … as report.html

Equal rows and facts give equal documents, byte for byte. Not here: the head by which loaders find splits (cards.py),
and the choice of rows.
"""

from pipeline.dataset_card.documents import documents
from pipeline.dataset_card.facts import CardFacts, facts_of

__all__ = ["CardFacts", "documents", "facts_of"]
