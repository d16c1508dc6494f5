"""Chooses among the plans of a repository before time is spent on running them: good ones and unlike ones first."""

from __future__ import annotations

import re

from pipeline.generators.commands import input_files, outputs_of, stages
from pipeline.generators.plans import Plan
from pipeline.generators.prose import goal_of, is_imperative

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
    score += 0.4 if is_imperative(goal_of(plan)) else 0.0
    score -= 1.0 if re.search(r"--?(?:help|version)\b|\s-[hvV]$|\bversion\(\)", plan.text) else 0.0
    return score - (1.0 if re.search(r"\bxargs\b|\bsh -c\b|\$'|\bfor \w+ in\b|\bwhile\b", plan.text) else 0.0)


def creators_first(plans: list[Plan], limit: int) -> list[Plan]:
    """Plans that make a file on which others work: to be run first, since the others need the result."""
    wanted: dict[str, int] = {}
    for plan in plans:
        for name in plan.missing:
            wanted[name] = wanted.get(name, 0) + 1

    def serves(plan: Plan) -> int:
        made = [m for m in plan.missing if m in {n for s in plan.steps for n in outputs_of(s)}]
        given = plan.files or re.search(r"\becho\b|\bprintf\b|<<|\bmemory\b", plan.text) or plan.stand_ins
        reads_only = re.search(r"(?i)\bselect\b|\b(?:rows|tables|schema|query|search|views|indexes)\b", plan.text)
        return max((wanted[m] for m in made), default=0) if given and len(plan.missing) == 1 and not reads_only else 0

    useful = sorted((p for p in plans if serves(p) > 1), key=lambda p: (-serves(p), plans.index(p)))
    return useful[:limit]


def pick_diverse(plans: list[Plan], limit: int) -> list[Plan]:
    """At most `limit` plans: greedily the best one that is least like those chosen already; ties in document order."""
    left = list(range(len(plans)))
    sets = [features(p) for p in plans]
    merits = [merit(p) for p in plans]
    chosen: list[int] = []
    texts: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    documents: dict[str, int] = {}
    while left and len(chosen) < limit:
        best = max(
            left, key=lambda i: (merits[i] - 2.5 * max((_likeness(sets[i], sets[c]) for c in chosen), default=0.0), -i)
        )
        left.remove(best)
        plan = plans[best]
        if (plan.text, plan.files) in texts or documents.get(plan.block.document, 0) >= PER_DOCUMENT:
            continue
        texts.add((plan.text, plan.files))
        documents[plan.block.document] = documents.get(plan.block.document, 0) + 1
        chosen.append(best)
    return [plans[i] for i in chosen]


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
