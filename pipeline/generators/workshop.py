"""Tries the plans of one repository in fresh sandboxes and makes candidates of those that give the same facts twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from pipeline.generators.documents import Tree
from pipeline.generators.facts import Fact, canonical
from pipeline.generators.instance_text import Part, build_bundle, build_instance
from pipeline.generators.novelty import Novelty
from pipeline.generators.phrasing import result_name
from pipeline.generators.plans import DATA_SUFFIXES, Plan, fed, with_other_input, with_stand_ins
from pipeline.generators.prose import goal_of
from pipeline.generators.protocol import Candidate, GeneratorInput, Start, refusal
from pipeline.generators.survey import Survey
from pipeline.generators.trials import Trial, builds, run_plan, unsuitable, writes_output

STAND_IN_TRIES = 2
OTHER_INPUTS = 3
SURROUNDING_BLANKS = 1000
MIN_ANSWER_BYTES = 16
DESPITE_FAILURE = "2>&1 || true"
PARTS = 3


class Workshop:
    """Remembers what earlier plans made, so that later ones can work on it."""

    def __init__(
        self, given: GeneratorInput, start: Start, survey: Survey, tree: Tree, novelty: Novelty, *, max_trials: int
    ) -> None:
        self._given = given
        self._start = start
        self._survey = survey
        self._tree = tree
        self._trials_left = max_trials
        self._taken: set[str] = set(survey.files)
        self._providers: dict[str, Plan] = {}
        self._novelty = novelty
        self._spare: list[Part] = []

    def make(self, plans: list[Plan], limit: int) -> Iterator[Candidate]:
        """At most `limit` candidates with an instance; every plan is accounted for. Raises SandboxUnavailable."""
        made = 0
        later: list[Plan] = []
        for last_pass, queue in ((False, plans), (True, later)):
            for plan in queue:
                if made >= limit or self._trials_left <= 0:
                    yield self._rejected(plan, "not_chosen", "this repository has enough candidates")
                    continue
                if not last_pass and any(PurePosixPath(m).suffix.lower() in DATA_SUFFIXES for m in plan.missing):
                    later.append(plan)
                    continue
                outcome = self._one(plan, last_pass)
                if outcome is None:
                    later.append(plan)
                    continue
                made += outcome.instance is not None
                yield outcome

    def bundles(self, limit: int) -> Iterator[Candidate]:
        """Tasks of several parts, each part one that alone would be a near copy of an earlier task."""
        kinds: dict[str, list[Part]] = {}
        for part in self._spare:
            kinds.setdefault(part.plan.block.document, []).append(part)
        made = 0
        for parts in sorted(kinds.values(), key=len, reverse=True):
            for start in range(0, len(parts) - 1, PARTS):
                group = _compatible(parts[start : start + PARTS])
                if made >= limit or len(group) < 2:
                    break
                block = group[0].plan.block
                instance = build_bundle(self._given, group, self._survey, self._tree)
                made += 1
                text = "\n".join(p.plan.text for p in group)
                yield Candidate(document=block.document, line=block.line, excerpt=text[:300], instance=instance)

    def _one(self, plan: Plan, last_pass: bool) -> Candidate | None:
        """The candidate of one plan; None when it should be tried again after the others."""
        failure = ("missing_input", f"not in the repository: {', '.join(plan.missing)}")
        for variant in self._variants(plan, last_pass):
            outcome = self._try_inputs(variant)
            if isinstance(outcome, Candidate):
                return outcome
            failure = outcome
            if failure[0] in {"part_of_bundle", "help_text", "trivial"}:
                return self._rejected(plan, *failure)
        if not last_pass and plan.missing and failure[0] in {"failed", "missing_input", "no_effect"}:
            return None
        return self._rejected(plan, *failure)

    def _variants(self, plan: Plan, last_pass: bool) -> Iterator[Plan]:
        """The plan as it stands, on what earlier plans made, on shipped files; what is most faithful first."""
        covered = {m for m in plan.missing if m in self._providers}
        if last_pass and covered:
            before = tuple(dict.fromkeys(self._providers[m] for m in plan.missing if m in covered))
            yield replace(plan, before=before, missing=tuple(m for m in plan.missing if m not in covered))
        elif not last_pass or not plan.missing:
            yield plan
            if (variant := fed(plan, self._tree.sizes)) is not None:
                yield variant
            if plan.shown and not writes_output(plan):
                # The document shows what is printed: it may be a message of a command that fails on purpose.
                yield replace(plan, steps=(*plan.steps[:-1], f"{plan.steps[-1]} {DESPITE_FAILURE}"))
        if last_pass and plan.missing:
            for seed in range(STAND_IN_TRIES):
                if (variant := with_stand_ins(plan, self._tree.sizes, plan.block.line + seed)) is not None:
                    yield variant

    def _try_inputs(self, plan: Plan) -> Candidate | tuple[str, str]:
        """The plan; where its result is one of the files of the repository, the same on other shipped inputs."""
        outcome = self._try(plan)
        for turn in range(OTHER_INPUTS):
            if isinstance(outcome, Candidate) or outcome[0] != "answer_shipped" or self._trials_left <= 0:
                break
            other = with_other_input(plan, self._tree.sizes, turn)
            if other is None:
                break
            outcome = self._try(other)
        return outcome

    def _try(self, plan: Plan) -> Candidate | tuple[str, str]:
        workdir = self._survey.workdir
        plain = not writes_output(plan) and not builds(plan)
        first = self._run(plan, f"{workdir}/documented-output" if plain else None)
        if first.failure_class:
            return first.failure_class, first.reason
        if plan.text.endswith(DESPITE_FAILURE) and not _as_shown(plan, first.printed):
            return "failed", "the command fails, and not in the way that the document shows"
        for fact in first.created:
            self._providers.setdefault(fact.path.removeprefix(workdir + "/"), plan)
        output = None
        facts = list(first.created)
        if not first.created and not first.runs and first.printed is not None:
            output = f"{workdir}/{result_name(plan, goal_of(plan), first.printed, self._taken)}"
            facts = [first.printed]
        problem = (
            unsuitable(facts, self._survey, work=bool(plan.files or plan.before)) if facts or not first.runs else None
        )
        if plan.text.endswith(DESPITE_FAILURE) and problem and problem[0] == "failed":
            problem = None
        if problem:
            return problem
        if (shipped := self._shipped(facts)) is not None:
            return "answer_shipped", f"{shipped} of the repository holds the result"
        second = self._run(plan, output)
        if second.failure_class:
            return second.failure_class, f"second run: {second.reason}"
        stable = _stable(first, second)
        if stable is None:
            return "not_deterministic", "two runs ended in different states"
        instance = build_instance(self._given, plan, stable, self._survey, self._tree)
        if isinstance(instance, tuple):
            return instance
        if not self._novelty.take(instance):
            self._spare.append(Part(plan, stable))
            return "part_of_bundle", "alone it would be a near copy of another task; it may be part of one with several"
        self._taken |= {PurePosixPath(f.path).name for f in [stable.printed, *stable.created] if f}
        return Candidate(document=plan.block.document, line=plan.block.line, excerpt=plan.text[:300], instance=instance)

    def _shipped(self, facts: list[Fact]) -> str | None:
        """The file of the repository that holds one of the results, as expected results of its own tests do."""
        for content in (f.content.strip() for f in facts):
            sizes = range(len(content), len(content) + SURROUNDING_BLANKS)
            alike = (
                {n for n, size in self._tree.sizes.items() if size in sizes}
                if len(content) >= MIN_ANSWER_BYTES
                else set()
            )
            self._tree.load(alike)
            for name in sorted(alike):
                if self._tree.read(name).strip() == content:
                    return name
        return None

    def _run(self, plan: Plan, output: str | None) -> Trial:
        self._trials_left -= 1
        return run_plan(plan, self._start, self._survey, output)

    def _rejected(self, plan: Plan, failure_class: str, reason: str) -> Candidate:
        return refusal(plan.block.document, plan.block.line, plan.text, failure_class, reason)


def _compatible(parts: list[Part]) -> list[Part]:
    """Those parts that neither write the same file nor need different files of one name."""
    chosen: list[Part] = []
    written: set[str] = set()
    given: dict[str, str] = {}
    for part in parts:
        paths = {f.path for f in [part.trial.printed, *part.trial.created] if f} | {r.path for r in part.trial.runs}
        files = dict(part.plan.files)
        if not paths & written and all(given.get(name, text) == text for name, text in files.items()):
            chosen.append(part)
            written |= paths
            given |= files
    return chosen


def _as_shown(plan: Plan, printed: Fact | None) -> bool:
    """Whether most of what the document shows was printed."""
    shown = [line.strip() for line in (plan.shown or "").splitlines() if line.strip()]
    got = {line.strip() for line in printed.lines} if printed is not None else set()
    return bool(shown) and sum(line in got for line in shown) * 2 >= len(shown)


def _stable(first: Trial, second: Trial) -> Trial | None:
    """The second run, cut to the facts that are equal in both; None when none is left or what was printed differs."""
    if first.runs != second.runs:
        return None
    if second.printed is not None:
        same = first.printed is not None and _content(first.printed) == _content(second.printed)
        return replace(second, created=()) if same else None
    known = {f.path: _content(f) for f in first.created}
    created = tuple(f for f in second.created if known.get(f.path) == _content(f))
    return replace(second, created=created) if created or second.runs else None


def _content(fact: Fact) -> tuple[str, str]:
    return fact.kind, canonical(fact)
