"""How much of what was tried came to something, and how well the verdicts hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pipeline.dataset_card import plots
from pipeline.dataset_card.content import Block, Exhibit, Paragraph, Picture, Section, Table, percent
from pipeline.dataset_card.exhibits import MOST_ROWS, policy
from pipeline.dataset_card.facts import AttemptYield, CardFacts
from pipeline.dataset_card.figures import Figures

MOST_PARTS = 60
"""Pairs of domain and agent that are listed."""


def quality(figures: Figures, facts: CardFacts) -> Section:
    blocks: list[Block] = [*_rates(facts), *_tasks(facts), *_attempts(facts)]
    if figures.flagged is not None:
        text = f"{figures.flagged:,} of {figures.rows:,} rows have a flag in `integrity` that limits their verdict."
        blocks.insert(0, Paragraph(text))
    return Section("Quality", tuple(blocks))


def _rates(facts: CardFacts) -> list[Block]:
    """Flaky verifiers and replays."""
    parts: list[tuple[str, int, int]] = []
    if facts.flakes is not None:
        parts.append(("flaky verifiers", facts.flakes.flaky, facts.flakes.checked))
    if facts.replays is not None:
        parts.append(("replays with the same verdict", facts.replays.same_verdict, facts.replays.replayed))
        parts.append(("judged attempts that were replayed", facts.replays.replayed, facts.replays.judged))
    if not parts:
        return []
    texts = []
    if facts.flakes is not None:
        texts.append(
            "The verifier of each task was run again and again on the same state; a task whose verifier did not always "
            "say the same is not published."
        )
    if (replays := facts.replays) is not None:
        texts.append(
            f"{replays.replayed:,} of {replays.judged:,} judged attempts, passed and failed, had been carried out "
            f"again in fresh sandboxes when this was written; {replays.same_verdict:,} of them "
            f"({percent(replays.same_verdict, replays.replayed)}) got the same verdict."
        )
        if replays.broken:
            texts.append(f"{replays.broken:,} more replays broke through no fault of the attempt and are not counted.")
    return [
        Paragraph(" ".join(texts)),
        _shared("How well verdicts hold", "plots/rates.png", "share", ("what", "n", "of"), parts),
    ]


def _tasks(facts: CardFacts) -> list[Block]:
    if not facts.by_domain:
        return []
    parts = [(name, one.admitted, one.written) for name, one in facts.by_domain.items()]
    parts.sort(key=lambda one: (-one[2], one[0]))
    head = ("domain", "admitted", "written")
    return [_shared("Tasks by domain", "plots/yields_domains.png", "admitted of the written tasks", head, parts)]


def _attempts(facts: CardFacts) -> list[Block]:
    if not facts.attempts:
        return []
    parts = _summed(facts.attempts, lambda one: policy(one.agent, one.model))
    text = "`oracle` carries out the reference solution and `noop` does nothing: they test the tasks, not a model."
    pairs = tuple(
        (
            one.domain,
            policy(one.agent, one.model),
            one.attempts,
            one.judged,
            one.passed,
            percent(one.passed, one.judged),
        )
        for one in facts.attempts
    )
    found: list[Block] = [
        Paragraph(text),
        _shared(
            "Attempts by agent", "plots/yields_agents.png", "passed of the judged", ("agent", "passed", "judged"), parts
        ),
        Table(
            "Attempts by domain and agent",
            ("domain", "agent and model", "attempts", "judged", "passed", "share"),
            pairs[:MOST_PARTS],
        ),
    ]
    if len(pairs) > MOST_PARTS:
        found.append(Paragraph(f"{len(pairs) - MOST_PARTS:,} more pairs are not listed."))
    return found


def _summed(attempts: tuple[AttemptYield, ...], of: Callable[[AttemptYield], str]) -> list[tuple[str, int, int]]:
    """(name, passed, judged), most judged first."""
    sums: dict[str, tuple[int, int]] = {}
    for one in attempts:
        passed, judged = sums.get(of(one), (0, 0))
        sums[of(one)] = (passed + one.passed, judged + one.judged)
    return sorted(((name, *both) for name, both in sums.items()), key=lambda one: (-one[2], one[0]))


def _shared(title: str, path: str, axis: str, head: tuple[str, str, str], parts: list[tuple[str, int, int]]) -> Block:
    picture = Picture(
        path,
        f"Bars: {title.lower()}, {axis}; the numbers are in the table.",
        partial(plots.shares, title, axis, parts[:MOST_ROWS]),
    )
    rows = tuple((name, part, whole, percent(part, whole)) for name, part, whole in parts)
    return Exhibit(picture, Table(f"{title}: {axis}", (*head, "share"), rows))
