"""How the rows of a version came about and which verified attempts are not among them."""

from __future__ import annotations

from functools import partial

from pipeline.curation.decisions import STEPS as STEPS_IN_ORDER
from pipeline.dataset_card import plots, words
from pipeline.dataset_card.content import Block, Cell, Exhibit, Paragraph, Picture, Section, Table, percent
from pipeline.dataset_card.exhibits import MOST_ROWS, counted
from pipeline.dataset_card.facts import CardFacts
from pipeline.dataset_card.figures import Figures
from pipeline.snapshots.publishing import Draft

NO_LICENCE = "none or several"


def making(draft: Draft, facts: CardFacts) -> Section:
    """The funnel, and what each gate stopped."""
    blocks: list[Block] = []
    if facts.funnel is not None:
        stages = [(words.STAGES.get(name, name), count) for name, count in facts.funnel.stages()]
        stages.append(("rows of this version", draft.rows))
        picture = Picture(
            "plots/funnel.png",
            "Bars: how many things came to each stage; the numbers are in the table.",
            partial(plots.bars, "From repositories to rows", "items", stages),
        )
        blocks += [
            Paragraph(
                "Repositories are listed and scored, an image is built for each that is good enough, tasks with a "
                "reference solution and a verifier are written for it, agents attempt those that pass every gate, and "
                "the state that an attempt leaves is judged in a fresh sandbox."
            ),
            Exhibit(picture, Table("From repositories to rows", ("stage", "items"), tuple(stages))),
        ]
    if facts.gates:
        rows = tuple(
            (name, words.GATES.get(name, ""), gate.reached, gate.passed, percent(gate.passed, gate.reached))
            for name, gate in facts.gates.items()
        )
        head = ("gate", "what it asks", "tasks that came", "passed", "share")
        blocks += [
            Paragraph("A task passes its gates in this order; the first one that says no ends it."),
            Table("Gates of a task", head, rows),
        ]
    return Section("How it was made", tuple(blocks))


def curation(draft: Draft, figures: Figures, facts: CardFacts) -> Section:
    """What each step took out, by the facts or else by what the version says itself."""
    steps: list[tuple[str, int, int]] = [(one.step, one.came, one.excluded) for one in facts.steps]
    if not steps and figures.excluded:
        came = draft.rows + sum(figures.excluded.values())
        for name in (*STEPS_IN_ORDER, *sorted(set(figures.excluded) - set(STEPS_IN_ORDER))):
            steps.append((name, came, figures.excluded.get(name, 0)))
            came -= steps[-1][2]
    if not steps:
        return Section("Curation", ())
    left = [("verified", steps[0][1]), *((f"after {name}", came - out) for name, came, out in steps)]
    picture = Picture(
        "plots/curation.png",
        "Bars: attempts that are left after each step of curation; the numbers are in the table.",
        partial(plots.bars, "Attempts left after each step", "verified attempts", left),
    )
    rows: list[tuple[Cell, ...]] = [(name, came, out, came - out) for name, came, out in steps]
    meaning = tuple((name, words.STEPS.get(name, "")) for name, _, _ in steps)
    text = "Verified attempts come to these steps in order; what one takes out comes to no later one. "
    waiting = f"{facts.waiting:,} of them wait for somebody to look at them. " if facts.waiting else ""
    where = "`excluded.parquet` names each attempt that is out, with step and reason."
    return Section(
        "Curation",
        (
            Paragraph(text + waiting + where),
            Exhibit(picture, Table("Attempts in and out, by step", ("step", "in", "out", "left"), tuple(rows))),
            Table("Steps", ("step", "what is taken out"), meaning),
        ),
    )


def licences(figures: Figures, facts: CardFacts) -> Section:
    if "license" not in figures.counts:
        return Section("Licences", ())
    counts = [(NO_LICENCE if name is None else name, rows) for name, rows in figures.counts["license"]]
    blocks: list[Block] = [
        Paragraph(
            "Each row names the licence that was recognised in the files of its repository at the pinned version, with "
            "the file and its hash. What a row quotes of a repository stays under its licence."
        ),
        counted("Licences", "licence", "plots/licences.png", counts, figures.rows),
    ]
    if facts.verified_by_licence:
        here = dict(counts)
        verified = [(NO_LICENCE if name is None else name, count) for name, count in facts.verified_by_licence]
        rows = tuple((name, count, here.get(name, 0)) for name, count in verified)
        blocks.append(
            Table("Verified attempts, and those of them that are here", ("licence", "verified", "here"), rows)
        )
    if facts.licences:
        blocks.append(Table("Licences that rows may be under", ("SPDX id",), tuple((name,) for name in facts.licences)))
    return Section("Licences", tuple(blocks))


def scrubbing(figures: Figures, facts: CardFacts) -> Section:
    if figures.scrubbed is None and not facts.by_finding:
        return Section("Scrubbing", ())
    text = words.SCRUBBING
    if figures.scrubbed is not None:
        found = figures.scrubbed
        text += f" In this version {found.rows:,} of {figures.rows:,} rows have {found.places:,} places replaced."
    blocks: list[Block] = [Paragraph(text)]
    if facts.by_finding:
        kinds = sorted(facts.by_finding.items(), key=lambda one: (-(one[1].replaced + one[1].planted), one[0]))
        shown = kinds[:MOST_ROWS]
        series = {"replaced": [one.replaced for _, one in shown], "planted, stays": [one.planted for _, one in shown]}
        picture = Picture(
            "plots/scrubbed.png",
            "Bars: places that were found by kind, replaced and planted; the numbers are in the table.",
            partial(plots.stacked, "What was found", "places", [name for name, _ in shown], series),
        )
        rows = tuple((name, one.rows, one.replaced, one.planted) for name, one in kinds)
        head = ("kind", "rows", "replaced", "planted, stays")
        blocks.append(Exhibit(picture, Table("What was found, by kind", head, rows)))
    return Section("Scrubbing", tuple(blocks))


def decontamination(figures: Figures, facts: CardFacts) -> Section:
    if facts.compared is None:
        return Section("Decontamination", ())
    if not facts.compared:
        return Section("Decontamination", (Paragraph("No benchmark was given: the rows were compared with none."),))
    out = {one.step: one.excluded for one in facts.steps} or figures.excluded
    text = f"{words.BENCHMARKS} {out.get('contaminated', 0):,} verified attempts are out for it."
    return Section("Decontamination", (Paragraph(text),))
