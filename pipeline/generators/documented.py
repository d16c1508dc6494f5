"""Tasks from the commands that a repository documents: run them twice, keep what is the same, ask for the end state.

The way of one documented place: text -> plan (plans.py, programs.py) -> inputs found -> run in fresh sandboxes
(trials.py) -> facts -> instruction (phrasing.py) and verifier (checks.py). What falls off the way is yielded with
its reason. Admission by noop and oracle is not here (pipeline/instances.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from pydantic import Field

from pipeline.errors import ItemRejected
from pipeline.generators.commands import first_words, parse_block, stages
from pipeline.generators.documents import Block, Tree, read_blocks
from pipeline.generators.instance_text import build_instance
from pipeline.generators.phrasing import goal_of, result_name
from pipeline.generators.plans import (
    DATA_SUFFIXES,
    Plan,
    Refusal,
    documented_files,
    resolve,
    shell_plans,
    with_stand_ins,
)
from pipeline.generators.protocol import Candidate, GeneratorInput, Start
from pipeline.generators.selection import pick_diverse
from pipeline.generators.survey import Survey, survey
from pipeline.generators.trials import Trial, run_plan, same, unsuitable, writes_output
from pipeline.types import Record

log = logging.getLogger(__name__)


class DocumentedConfig(Record):
    max_plans: int = Field(default=22, gt=0)
    """Documented places tried per repository."""
    max_trials: int = Field(default=48, gt=0)
    """Sandboxes started per repository."""
    max_candidates: int = Field(default=11, gt=0)
    """Candidates after which trying stops; a little more than what is admitted, since some are near copies."""


class Documented:
    """The generator that needs no model."""

    name = "documented"

    def __init__(self, config: DocumentedConfig | None = None) -> None:
        self._config = config or DocumentedConfig()

    def instances(self, given: GeneratorInput, start: Start) -> Iterator[Candidate]:
        """See Generator. Raises SandboxUnavailable, ImageMissing; ItemRejected when the image has no usable shell."""
        tree = Tree.open(given.tree)
        blocks = list(read_blocks(tree))
        plans, refused = shell_plans(blocks)
        yield from (_refusal(r) for r in refused)
        words = {w for plan in plans for step in plan.steps for w in first_words(step)}
        sandbox = start()
        try:
            found = survey(sandbox, words)
        finally:
            sandbox.close()
        names = set(found.files) | set(tree.sizes)
        documented = documented_files(blocks)
        usable: list[Plan] = []
        for plan in plans:
            unknown = sorted(
                w for step in plan.steps for w in first_words(step) if w not in found.programs and w not in names
            )
            if unknown:
                if _meant_as_shell(plan.block, found):
                    yield _refusal(
                        Refusal(
                            plan.block, plan.text, "unknown_command", f"not in the image: {', '.join(unknown)[:100]}"
                        )
                    )
                continue
            resolved = resolve(plan, names, documented)
            if not goal_of(resolved):
                yield _refusal(Refusal(plan.block, plan.text, "no_goal", "the document does not say what it is for"))
            else:
                usable.append(resolved)
        yield from _Workshop(self._config, given, start, found, tree).make(usable)


def _meant_as_shell(block: Block, found: Survey) -> bool:
    """Whether a block that names unknown programs is shell at all, not a listing of something else."""
    if block.language:
        return True
    words = [w for c in parse_block(block) for w in first_words(c.text)]
    return any(w in found.programs for w in words) and all(re.fullmatch(r"[\w./+-]+", w) for w in words)


def _refusal(refused: Refusal) -> Candidate:
    return Candidate(
        document=refused.block.document,
        line=refused.block.line,
        excerpt=refused.excerpt[:300],
        failure_class=refused.failure_class,
        reason=refused.reason,
    )


class _Workshop:
    """Tries plans of one repository and makes instances from those that work."""

    def __init__(
        self, config: DocumentedConfig, given: GeneratorInput, start: Start, found: Survey, tree: Tree
    ) -> None:
        self._config = config
        self._given = given
        self._start = start
        self._survey = found
        self._tree = tree
        self._trials = 0
        self._made = 0
        self._taken: set[str] = set(found.files)
        self._providers: dict[str, Plan] = {}
        self._help_used = False

    def make(self, plans: list[Plan]) -> Iterator[Candidate]:
        chosen = pick_diverse(plans, self._config.max_plans)
        for plan in plans:
            if plan not in chosen:
                yield self._reject(plan, "not_chosen", "enough others of this repository are more varied")
        later: list[Plan] = []
        for plan in chosen:
            if any(PurePosixPath(m).suffix.lower() in DATA_SUFFIXES for m in plan.missing):
                later.append(plan)
            else:
                yield from self._one(plan, last_chance=plan if plan.missing else None, later=later)
        for plan in later:
            yield from self._one(plan, last_chance=None, later=None)

    def _one(self, plan: Plan, *, last_chance: Plan | None, later: list[Plan] | None) -> Iterator[Candidate]:
        if self._made >= self._config.max_candidates or self._trials >= self._config.max_trials:
            yield self._reject(plan, "not_chosen", "this repository has enough candidates")
            return
        failure = ("missing_input", f"not in the repository: {', '.join(plan.missing)}")
        for variant in self._variants(plan, first_pass=later is not None):
            outcome = self._try(variant)
            if isinstance(outcome, Candidate):
                yield outcome
                return
            failure = outcome
        if later is not None and last_chance is not None and failure[0] in {"failed", "missing_input"}:
            later.append(plan)
            return
        yield self._reject(plan, *failure)

    def _variants(self, plan: Plan, *, first_pass: bool) -> Iterator[Plan]:
        providers = [self._providers[m] for m in plan.missing if m in self._providers]
        if providers and not first_pass:
            covered = {m for m in plan.missing if m in self._providers}
            yield replace(
                plan, before=tuple(dict.fromkeys(providers)), missing=tuple(m for m in plan.missing if m not in covered)
            )
        elif (
            not plan.missing
            or first_pass
            or all(PurePosixPath(m).suffix.lower() not in DATA_SUFFIXES for m in plan.missing)
        ):
            yield plan
        if not first_pass and plan.missing:
            for seed in range(2):
                if (variant := with_stand_ins(plan, self._tree.sizes, seed + plan.block.line)) is not None:
                    yield variant

    def _run(self, plan: Plan, output: str | None) -> Trial:
        self._trials += 1
        return run_plan(plan, self._start, self._survey, output)

    def _try(self, plan: Plan) -> Candidate | tuple[str, str]:
        workdir = self._survey.workdir
        output = None if writes_output(plan) else f"{workdir}/documented-output"
        first = self._run(plan, output)
        if first.failure_class:
            return first.failure_class, first.reason
        for fact in first.created:
            self._providers.setdefault(
                str(PurePosixPath(fact.path).relative_to(workdir)) if fact.path.startswith(workdir) else fact.path, plan
            )
        keep_printed = not first.created and not first.built
        facts = ([first.printed] if first.printed and keep_printed else []) + list(first.created)
        if first.built and not facts:
            facts = []
        problem = unsuitable(facts, self._survey) if facts or not first.built else None
        if problem and (problem[0] != "help_text" or self._help_used):
            return problem
        self._help_used = self._help_used or problem is not None
        goal = goal_of(plan)
        if keep_printed and first.printed is not None:
            output = f"{workdir}/{result_name(plan, goal, first.printed, self._taken)}"
        else:
            output = None
        second = self._run(plan, output)
        if second.failure_class:
            return second.failure_class, f"second run: {second.reason}"
        moved = replace(first, printed=replace(first.printed, path=output) if first.printed and output else None)
        if not same(moved, second):
            return "not_deterministic", "two runs ended in different states"
        instance = build_instance(self._given, plan, second, self._survey, self._tree)
        if isinstance(instance, tuple):
            return instance
        self._made += 1
        self._taken |= {str(PurePosixPath(f.path).name) for f in [second.printed, *second.created] if f}
        return Candidate(document=plan.block.document, line=plan.block.line, excerpt=plan.text[:300], instance=instance)

    def _reject(self, plan: Plan, failure_class: str, reason: str) -> Candidate:
        return _refusal(Refusal(plan.block, plan.text, failure_class, reason))
