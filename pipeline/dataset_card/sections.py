"""The content of a card: what is said in which order, and which figure stands where.

A section is there when its columns or facts are. Nothing is counted here (figures.py, facts.py) and nothing escaped.
"""

from __future__ import annotations

from pipeline.dataset_card.content import Block, Card, Cell, Paragraph, Section, Table, percent
from pipeline.dataset_card.exhibits import UNKNOWN, counted, measured, policy
from pipeline.dataset_card.facts import CardFacts
from pipeline.dataset_card.figures import Figures
from pipeline.dataset_card.meanings import fields_of
from pipeline.dataset_card.quality import quality
from pipeline.dataset_card.selection import curation, decontamination, licences, making, scrubbing
from pipeline.dataset_card.words import SPLITS, limits, loading, replaying
from pipeline.schemas import canonical_json
from pipeline.snapshots.publishing import Draft

_KINDS = {
    "domain": ("Domains", "domain", "plots/domains.png"),
    "language": ("Languages", "language", "plots/languages.png"),
    "difficulty": ("Difficulty", "difficulty", None),
    "family": ("Families of tasks", "family", None),
    "generator": ("Generators", "generator", None),
    "source": ("Sources", "source", None),
    "stop_reason": ("Why attempts ended", "reason", None),
    "interface": ("Interfaces", "interface", None),
}
_NUMBERS = {
    "n_turns": ("Turns", "turns of an attempt", "plots/turns.png"),
    "n_tokens": ("Tokens", "tokens that the model wrote", "plots/tokens.png"),
}


def card_of(draft: Draft, figures: Figures, facts: CardFacts) -> Card:
    """The whole card, sections without content left out."""
    oracle = sum(rows for agent, _, rows in figures.policies if agent == "oracle")
    sections = [
        _overview(draft, figures),
        making(draft, facts),
        curation(draft, figures, facts),
        _splits(draft, figures, facts),
        _inside(figures),
        licences(figures, facts),
        scrubbing(figures, facts),
        decontamination(figures, facts),
        quality(figures, facts),
        limits(draft, oracle, "n_tokens" in figures.spreads),
        _columns(draft),
        loading(draft, tuple(split.name for split in figures.splits)),
        replaying(),
        _provenance(draft, facts),
    ]
    title = f"Verified terminal trajectories: {draft.name} {draft.version}"
    return Card(title, tuple(section for section in sections if section.blocks))


def _overview(draft: Draft, figures: Figures) -> Section:
    rows: list[tuple[Cell, ...]] = [("trajectories", figures.rows)]
    rows += [(name, count) for name, count in figures.distinct.items()]
    rows += [(f"trajectories in {split.name}", split.rows) for split in figures.splits if len(figures.splits) > 1]
    for name, spread in figures.spreads.items():
        rows.append((f"{_NUMBERS[name][0].lower()}, median", spread.median))
    rows.append(("MB, compressed", round(sum(file.bytes for file in draft.files) / 1e6, 1)))
    rows.append(("MB, uncompressed", round(sum(draft.bytes_by_split.values()) / 1e6, 1)))
    text = (
        f"{figures.rows:,} attempts of agents that solved tasks in containers made from real repositories. Each final "
        "state passed the pytest verifier of its task, run by an interpreter of ours in a fresh sandbox; a task is "
        "here only when doing nothing fails its verifier and its reference solution passes it, twice. A row is one "
        "attempt with everything that is needed to train on it, to judge it and to carry it out again: `messages` is "
        "the attempt as a chat, `steps` has exit codes and seconds as well."
    )
    return Section("What it is", (Paragraph(text), Table("At a glance", ("what", "how much"), tuple(rows))))


def _splits(draft: Draft, figures: Figures, facts: CardFacts) -> Section:
    if "split" not in draft.schema.names:
        return Section("Splits", ())
    things = list(figures.splits[0].distinct) if figures.splits else []
    table = Table(
        "Rows and what they hold, by split",
        ("split", "rows", "share", *things),
        tuple((one.name, one.rows, percent(one.rows, figures.rows), *one.distinct.values()) for one in figures.splits),
    )
    text, held = SPLITS, facts.splits
    if held is not None:
        text += f" Held out are {held.repositories:.0%} of the repositories and {held.families:.0%} of the families."
    return Section("Splits", (Paragraph(text), table))


def _inside(figures: Figures) -> Section:
    blocks: list[Block] = [_spreads(figures)] if figures.spreads else []
    for name, (title, axis, path) in _NUMBERS.items():
        if name in figures.spreads:
            blocks.append(measured(figures.spreads[name], title, axis, path))
    for name, (title, head, plot) in _KINDS.items():
        if name in figures.counts:
            named = [(UNKNOWN if value is None else value, rows) for value, rows in figures.counts[name]]
            blocks.append(counted(title, head, plot, named, figures.rows))
    if figures.policies:
        agents = [(policy(agent or UNKNOWN, model), rows) for agent, model, rows in figures.policies]
        blocks.append(counted("Agents", "agent and model", "plots/agents.png", agents, figures.rows))
    return Section("What is in it", tuple(blocks))


def _spreads(figures: Figures) -> Table:
    head = ("of a trajectory", "smallest", "median", "mean", "90 of 100 at most", "99 of 100 at most", "largest", "all")
    rows: list[tuple[Cell, ...]] = []
    for name, one in figures.spreads.items():
        numbers = (one.least, one.median, one.mean, one.p90, one.p99, one.most, one.total)
        rows.append((f"{_NUMBERS[name][0].lower()} ({one.rows:,} trajectories with any)", *numbers))
    return Table("Length of trajectories", head, tuple(rows))


def _columns(draft: Draft) -> Section:
    rows = tuple(fields_of(draft.schema))
    text = (
        "Each column may be null. Free-form values are JSON text, and mappings lists of key and value, since readers "
        "of data sets refuse maps. Fields of lists of structs are named behind their column."
    )
    return Section(
        "Columns", (Paragraph(text), Table("Columns and their meaning", ("column", "type", "meaning"), rows))
    )


def _provenance(draft: Draft, facts: CardFacts) -> Section:
    rows: list[tuple[Cell, ...]] = [("name and version", f"{draft.name} {draft.version}")]
    if facts.schema_version is not None:
        rows.append(("schema version", str(facts.schema_version)))
    if facts.code_commit is not None:
        rows.append(("commit of the code", facts.code_commit))
    rows += [("made from", parent) for parent in draft.parents]
    rows += [
        (f"filter {name}", value if isinstance(value, str) else canonical_json(value))
        for name, value in sorted(draft.filters.items())
    ]
    text = (
        "`manifest.json` has the hash of every file, of the rows whatever their order (`content_sha256`) and of "
        "itself, the parents, the filters and the commit of the code. `ids.parquet` has the hash and the split of "
        "each row, `excluded.parquet` each verified attempt that is not here, with the reason. A version never changes."
    )
    return Section("Provenance", (Paragraph(text), Table("Where it comes from", ("what", "value"), tuple(rows))))
