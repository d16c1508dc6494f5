"""A compact card of a data set of hierarchies or of a benchmark: what a row is, how many there are, how to read it."""

from __future__ import annotations

import glob
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from pipeline.cards import front_matter
from pipeline.dataset_card.content import Block, Bullets, Card, Cell, Code, Paragraph, Section, Table
from pipeline.dataset_card.markdown import markdown
from pipeline.schemas import canonical_json
from pipeline.snapshots import Draft

TAGS = ("agents", "hierarchical", "offline-rl", "trajectories")


@dataclass(frozen=True)
class Words:
    """What the card of one data set says beside its numbers."""

    title: str
    about: tuple[str, ...]
    """Paragraphs."""
    hints: tuple[str, ...]
    """Of using it, one bullet each."""
    meanings: Mapping[str, str]
    """Of each column; fields of structs by `column.field`."""
    counted: tuple[str, ...]
    """Columns by whose values rows are counted together."""
    distinct: tuple[str, ...]
    """Columns whose different values are counted beside them."""
    tables: tuple[Table, ...] = ()
    """What else is known in numbers."""
    licenses: Collection[str] = ()
    """SPDX ids of what rows quote, for rows that do not say so themselves."""


def card(draft: Draft, words: Words) -> str:
    """README.md with the head that loaders read."""
    splits = sorted({str(file.split) for file in draft.files})
    split = "train" if "train" in splits else splits[0]
    sections = (
        Section("What it is", tuple(map(Paragraph, words.about))),
        Section("What is in it", (_counts(draft, words), *words.tables)),
        Section("How to use it", (*_loading(split), Bullets(words.hints))),
        Section("Columns", (_columns(draft, words.meanings),)),
        Section("Where it comes from", (_origin(draft),)),
    )
    head = front_matter(draft, TAGS, words.licenses)
    return f"{head}\n{markdown(Card(f'{words.title}: {draft.name} {draft.version}', sections))}"


def _counts(draft: Draft, words: Words) -> Table:
    files = [glob.escape(str(draft.folder / file.path)) for file in draft.files]  # DuckDB takes a path for a pattern
    of = ", ".join(words.counted)
    distinct = "".join(f", count(DISTINCT {name})" for name in words.distinct)
    query = f"SELECT {of}, count(*){distinct} FROM read_parquet(?, hive_partitioning = false) GROUP BY ALL ORDER BY ALL"
    with duckdb.connect() as connection:
        found = connection.execute(query, [files]).fetchall()
    head = (*words.counted, "rows", *(f"different {name}" for name in words.distinct))
    return Table("Rows", head, tuple(tuple(map(_cell, row)) for row in found))


def _cell(value: object) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if value is None or isinstance(value, int | float) else str(value)


def _loading(split: str) -> Sequence[Block]:
    code = (
        f'import datasets\n\nrows = datasets.load_dataset("DIR", split="{split}")\n'
        f'rows = datasets.load_dataset("parquet", data_files="DIR/data/{split}-*.parquet")["train"]'
    )
    return (Paragraph("DIR is the folder of this card; both lines give the same rows."), Code("python", code))


def _columns(draft: Draft, meanings: Mapping[str, str]) -> Table:
    types = {field.name: str(field.type) for field in draft.schema}
    rows = tuple((name, types.get(name, ""), text) for name, text in meanings.items())
    return Table("Columns and their meaning", ("column", "type", "meaning"), rows)


def _origin(draft: Draft) -> Table:
    rows: list[tuple[Cell, ...]] = [("made from", parent) for parent in draft.parents]
    for name, value in sorted({**draft.filters, **draft.summary}.items()):
        rows.append((name, value if isinstance(value, str) else canonical_json(value)))
    return Table("Parents, filters and counts", ("what", "value"), tuple(rows))
