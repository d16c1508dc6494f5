"""Chooses among the plans of a repository before any time is spent on running them: good ones first, unlike ones first."""

from __future__ import annotations

import re

from pipeline.generators.commands import input_files, stages
from pipeline.generators.phrasing import goal_of
from pipeline.generators.plans import Plan

PER_DOCUMENT = 14


def features(plan: Plan) -> frozenset[str]:
    """Words that tell one plan from another: programs, options, prose, heading."""
    words = set(re.findall(r"[a-z]{3,}", goal_of(plan).lower()))
    for step in plan.steps:
        for stage in stages(step):
            words |= {f"${w}" for w in stage.words[:1]} | {w for w in stage.words if w.startswith("-")}
    return frozenset(words | {f"#{h}" for h in plan.block.headings[-1:]})


def merit(plan: Plan) -> float:
    """How promising a plan looks: documented output, existing inputs, a goal in prose, a document read first."""
    score = 1.0 if plan.shown else 0.0
    score += 0.5 if any(input_files(s) for s in plan.steps) else 0.0
    score += min(len(goal_of(plan).split()), 25) / 25
    score += 0.4 * bool(plan.files) - 0.35 * len(plan.missing)
    score += 0.25 * min(sum(len(stages(s)) for s in plan.steps) - 1, 3)
    score += 0.3 if plan.block.document.lower().startswith("readme") else 0.0
    return score - (1.0 if re.search(r"--?(?:help|version)\b|\s-[hvV]$", plan.text) else 0.0)


def pick_diverse(plans: list[Plan], limit: int) -> list[Plan]:
    """At most `limit` plans: greedily the best one that is least like those chosen already; ties in document order."""
    left = list(range(len(plans)))
    sets = [features(p) for p in plans]
    merits = [merit(p) for p in plans]
    chosen: list[int] = []
    texts: set[str] = set()
    documents: dict[str, int] = {}
    while left and len(chosen) < limit:
        best = max(
            left, key=lambda i: (merits[i] - 2.5 * max((_likeness(sets[i], sets[c]) for c in chosen), default=0.0), -i)
        )
        left.remove(best)
        plan = plans[best]
        if plan.text in texts or documents.get(plan.block.document, 0) >= PER_DOCUMENT:
            continue
        texts.add(plan.text)
        documents[plan.block.document] = documents.get(plan.block.document, 0) + 1
        chosen.append(best)
    return [plans[i] for i in chosen]


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
