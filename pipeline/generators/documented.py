"""Tasks from what a repository documents: commands, snippets and sample programs. Needs no model.

The way of one documented place: text -> plan (plans.py, programs.py, samples.py) -> run in fresh sandboxes, twice
(workshop.py, program_tasks.py) -> facts -> instruction and verifier. What falls off the way is yielded with its
reason. Admission by noop and oracle is not here (pipeline/instances.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field

from pipeline.generators.commands import first_words, parse_block, stages
from pipeline.generators.documents import Block, Tree, read_blocks
from pipeline.generators.novelty import Novelty
from pipeline.generators.plans import (
    Plan,
    Refusal,
    documented_files,
    java_programs,
    labelled_variants,
    resolve,
    shell_plans,
    synopsis_plans,
    with_compiling,
)
from pipeline.generators.program_tasks import ProgramTasks
from pipeline.generators.programs import complete_programs, snippets
from pipeline.generators.prose import goal_of
from pipeline.generators.protocol import Candidate, GeneratorInput, Start, refusal
from pipeline.generators.samples import sample_plans
from pipeline.generators.selection import creators_first, pick_diverse
from pipeline.generators.survey import Survey, survey, with_help
from pipeline.generators.targets import target_plans
from pipeline.generators.workshop import Workshop
from pipeline.types import Record

MAX_CREATORS = 4
TOOLCHAIN = {
    "make",
    "cmake",
    "cc",
    "gcc",
    "g++",
    "c++",
    "go",
    "javac",
    "java",
    "php",
    "node",
    "python",
    "python3",
    "npm",
}


class DocumentedConfig(Record):
    """How much is tried per repository."""

    max_plans: int = Field(default=26, gt=0)
    """Documented commands tried."""
    max_trials: int = Field(default=44, gt=0)
    """Sandboxes started for them."""
    max_candidates: int = Field(default=10, gt=0)
    """Candidates after which trying stops; a little more than what is admitted, since some are near copies."""
    max_programs: int = Field(default=5, gt=0)
    """Of these, at most so many programs to be written and so many programs to be built."""
    max_bundles: int = Field(default=3, ge=0)
    """Tasks in several parts, made of what alone would be a near copy."""


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
        sandbox = start()
        try:
            words = {w for plan in plans for step in plan.steps for w in first_words(step)}
            words |= {w for r in refused if r.failure_class == "placeholder" for w in first_words(r.excerpt)}
            found = survey(sandbox, words)
            usable, more = _usable([*plans, *synopsis_plans(refused, blocks, found.own)], blocks, found, tree)
            chosen = self._chosen(usable)
            found = with_help(sandbox, found, _help_calls(chosen))
        finally:
            sandbox.close()
        yield from (
            refusal(r.block.document, r.block.line, r.excerpt, r.failure_class, r.reason)
            for r in [*(r for r in refused if _meant_as_shell(r.block, found)), *more]
        )
        yield from (_not_chosen(plan) for plan in usable if plan not in chosen)
        novelty = Novelty()
        programs = ProgramTasks(given, start, found, tree, blocks, novelty)
        yield from programs.make(snippets(blocks, tree, given.repository.language), self._config.max_programs)
        workshop = Workshop(given, start, found, tree, novelty, max_trials=self._config.max_trials)
        language = given.repository.language
        built = [
            *sample_plans(tree, language, found),
            *complete_programs(blocks, language),
            *target_plans(tree, blocks),
        ]
        yield from workshop.make(built, self._config.max_programs)
        yield from workshop.make(chosen, self._config.max_candidates)
        yield from workshop.bundles(self._config.max_bundles)
        yield from programs.bundles(self._config.max_bundles)

    def _chosen(self, usable: list[Plan]) -> list[Plan]:
        creators = creators_first(usable, MAX_CREATORS)
        return [*creators, *pick_diverse([p for p in usable if p not in creators], self._config.max_plans)]


def _usable(plans: list[Plan], blocks: list[Block], found: Survey, tree: Tree) -> tuple[list[Plan], list[Refusal]]:
    """Plans whose programs exist, with their inputs found; and the others with the reason."""
    names = set(found.files) | set(tree.sizes)
    documented = documented_files(blocks) | java_programs(blocks, java_package(tree))
    usable: list[Plan] = []
    refused: list[Refusal] = []
    for plan in plans:
        words = {w for step in plan.steps for w in first_words(step)}
        unknown = sorted(w for w in words if w not in found.programs and w not in names)
        # A listing of options or a piece of prose gives many of these: one row says it for the block.
        told = any(r.block == plan.block for r in refused[-1:])
        if unknown and _meant_as_shell(plan.block, found) and not told:
            refused.append(
                Refusal(plan.block, plan.text, "unknown_command", f"not in the image: {', '.join(unknown)[:100]}")
            )
        if unknown:
            continue
        resolved = resolve(with_compiling(plan, documented), names, documented)
        if not any(w in TOOLCHAIN or w in found.own or w in names for w in words):
            refused.append(Refusal(plan.block, plan.text, "no_tool", "uses nothing that belongs to the repository"))
            continue
        variants = labelled_variants(resolved, blocks) if resolved.missing else []
        for variant in variants or [resolved]:
            if goal_of(variant):
                usable.append(variant)
            else:
                refused.append(Refusal(plan.block, plan.text, "no_goal", "the document does not say what it is for"))
    return usable, refused


def java_package(tree: Tree) -> str:
    """The package that holds most of the main sources, empty when there are none."""
    folders = [
        re.sub(r"^(?:.*/)?src/main/java/|/[^/]*$", "", n)
        for n in tree.sizes
        if "src/main/java/" in n and n.endswith(".java")
    ]
    return max(sorted(set(folders)), key=folders.count).replace("/", ".") if folders else ""


def _help_calls(plans: list[Plan]) -> set[str]:
    """`program` and `program subcommand` for all that the plans call."""
    calls = [s.words for plan in plans for step in plan.steps for s in stages(step) if s.words]
    subs = {f"{w[0]} {w[1]}" for w in calls if len(w) > 2 and re.fullmatch(r"[a-z][a-z-]+", w[1])}
    return {w[0] for w in calls} | subs


def _meant_as_shell(block: Block, found: Survey) -> bool:
    """Whether a block that names unknown programs is shell at all, not a listing of something else."""
    if block.language:
        return True
    words = [w for c in parse_block(block) for w in first_words(c.text)]
    return any(w in found.programs for w in words) and all(re.fullmatch(r"[\w./+-]+", w) for w in words)


def _not_chosen(plan: Plan) -> Candidate:
    block = plan.block
    return refusal(block.document, block.line, plan.text, "not_chosen", "others of this repository are more varied")
