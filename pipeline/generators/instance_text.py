"""Puts a proven plan and its facts together: instruction, solution, verifier, difficulty, provenance."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Literal

from pipeline.generators.checks import CHECKS, Writer, add_checks
from pipeline.generators.commands import stages
from pipeline.generators.documents import Tree
from pipeline.generators.facts import Fact
from pipeline.generators.phrasing import code, goal_of, how, inputs, reference, shape, slug_of
from pipeline.generators.plans import Plan
from pipeline.generators.protocol import GeneratorInput
from pipeline.generators.survey import Survey
from pipeline.generators.trials import Trial
from pipeline.types import TaskInstance, Verifier, VerifierFile

GENERATOR = "documented"


def build_instance(
    given: GeneratorInput, plan: Plan, trial: Trial, survey: Survey, tree: Tree
) -> TaskInstance | tuple[str, str]:
    """The instance, or (failure class, reason) when nothing strict can be said about the end state."""
    facts = [f for f in ([trial.printed] if trial.printed else list(trial.created)) if f.kind in CHECKS]
    if not facts:
        return "no_effect", "no file that a test can read was made"
    goal = goal_of(plan)
    writer = Writer()
    for fact in facts:
        add_checks(writer, fact, _subject(plan, goal, fact, len(facts)))
    return TaskInstance(
        repository_id=given.repository.repository_id,
        image_digest=given.image_digest,
        instruction=_instruction(plan, goal, facts, trial, survey),
        solution=trial.steps,
        verifier=Verifier(files=(VerifierFile(path="test_state.py", content=writer.text()),)),
        generator=GENERATOR,
        language=given.repository.language,
        family=_family(plan, trial),
        difficulty=_difficulty(plan),
        provenance={
            "document": plan.block.document,
            "line": str(plan.block.line),
            "heading": " > ".join(plan.block.headings)[:200],
            "document_sha256": hashlib.sha256(tree.read(plan.block.document)).hexdigest(),
            "kind": plan.kind,
            "output_documented": "yes" if plan.shown else "no",
        },
    )


def _subject(plan: Plan, goal: str, fact: Fact, number: int) -> str:
    name = PurePosixPath(fact.path)
    return name.stem if number > 1 or name.suffix == ".db" else slug_of(plan, goal).replace("-", " ")


def _family(plan: Plan, trial: Trial) -> str:
    if plan.kind == "sample":
        return "built_program"
    if plan.kind == "program":
        return "written_program"
    if trial.printed is None:
        return "created_files" if trial.created else "built_program"
    return "chained_steps" if plan.before else "printed_text"


def _difficulty(plan: Plan) -> Literal["easy", "medium", "hard"]:
    """By the number of commands, files and options that a solution needs."""
    points = _weight(plan)
    return "easy" if points < 3 else "medium" if points < 6 else "hard"


def _weight(plan: Plan) -> float:
    own = [stage for step in plan.steps for stage in stages(step)]
    options = sum(word.startswith("-") for stage in own for word in stage.words)
    program = 2.0 if plan.kind != "shell" else 0.0
    return len(own) + 0.5 * options + len(plan.files) + program + sum(_weight(p) for p in plan.before)


def _instruction(plan: Plan, goal: str, facts: list[Fact], trial: Trial, survey: Survey) -> str:
    paragraphs: list[str] = []
    known: set[str] = set()
    for earlier in plan.before:
        paragraphs.append(" ".join(x for x in (goal_of(earlier), _given(earlier, known), how(earlier, survey)) if x))
    given = _given(plan, known)
    paragraphs.append(goal)
    if given:
        paragraphs.append(given)
    paragraphs.append(_work(plan, trial, survey))
    if trial.printed is not None:
        paragraphs.append(_capital(shape(trial.printed, with_name=False)))
    else:
        paragraphs.append("\n".join(_capital(shape(f, with_name=True)) for f in facts))
    return "\n\n".join(p for p in paragraphs if p)


def _given(plan: Plan, known: set[str]) -> str:
    files = [(name, text) for name, text in plan.files if name not in known]
    known |= {name for name, _ in files}
    if not files:
        return ""
    return _choice(plan, ("Create", "Start with", "Make", "Needed first:")) + " " + inputs(files)


def _work(plan: Plan, trial: Trial, survey: Survey) -> str:
    place = code(survey.workdir)
    work = how(plan, survey)
    details = reference(plan, survey)
    if trial.printed is not None:
        target = code(trial.printed.path)
        keep = _choice(
            plan,
            (
                f"Save the output as {target}.",
                f"Write what this prints to {target}.",
                f"{target} must hold the output.",
                f"The result belongs in {target}.",
            ),
        )
    else:
        keep = _choice(plan, (f"Work in {place}.", f"All of it happens in {place}.", f"Paths are relative to {place}."))
    more = (
        _choice(plan, (f"Details: {details}.", f"See {details}.", f"{details} explains the options.", ""))
        if details
        else ""
    )
    return " ".join(x for x in (work, keep, more) if x)


def _choice(plan: Plan, options: tuple[str, ...]) -> str:
    """One wording of several, the same for the same plan."""
    return options[int(hashlib.sha256(f"{plan.block.document}:{plan.text}".encode()).hexdigest(), 16) % len(options)]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:] if text and text[0].isalpha() else text
