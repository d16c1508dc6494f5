"""Puts a proven plan and its facts together: instruction, solution, verifier, difficulty, provenance."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from pipeline.generators.checks import add_checks, add_program_check
from pipeline.generators.commands import stages
from pipeline.generators.documents import Tree
from pipeline.generators.facts import Fact, ProgramRun
from pipeline.generators.phrasing import code, fenced, how, inputs, reference, shape
from pipeline.generators.plans import Plan
from pipeline.generators.prose import context_of, goal_of, slug_of
from pipeline.generators.protocol import GeneratorInput
from pipeline.generators.survey import Survey
from pipeline.generators.trials import Trial
from pipeline.generators.writer import Writer
from pipeline.types import TaskInstance, Verifier, VerifierFile

GENERATOR = "documented"
NUMBERS = {2: "two", 3: "three"}
BUNDLE_OPENINGS = (
    "Along the lines of {document}, {count} results are wanted. Paths are relative to {place}.",
    "{document} shows how to get these {count} things; make all of them in {place}.",
    "There are {count} parts to this, independent of each other, done in {place} with what {document} describes.",
)


def build_instance(
    given: GeneratorInput, plan: Plan, trial: Trial, survey: Survey, tree: Tree
) -> TaskInstance | tuple[str, str]:
    """The instance, or (failure class, reason) when nothing strict can be said about the end state."""
    facts = [trial.printed] if trial.printed else list(trial.created)
    runs = [] if trial.printed else list(trial.runs)
    if not facts and not runs:
        return "no_effect", "no file that a test can read was made"
    goal = goal_of(plan)
    code_of_tests = _verifier(plan, goal, [*_saved(plan, survey), *facts], runs)
    return TaskInstance(
        repository_id=given.repository.repository_id,
        image_digest=given.image_digest,
        instruction=_instruction(plan, goal, trial, facts, runs, survey),
        solution=trial.steps,
        verifier=Verifier(files=(VerifierFile(path="test_state.py", content=code_of_tests),)),
        generator=GENERATOR,
        language=given.repository.language,
        family=_family(plan, trial, runs),
        difficulty=_difficulty(plan),
        provenance=_provenance(plan, tree),
    )


@dataclass(frozen=True)
class Part:
    """One part of a task with several."""

    plan: Plan
    trial: Trial


def build_bundle(given: GeneratorInput, parts: Sequence[Part], survey: Survey, tree: Tree) -> TaskInstance:
    """One task of several independent results."""
    first = parts[0].plan.block
    writer = Writer()
    paragraphs = [
        _choice(parts[0].plan, BUNDLE_OPENINGS).format(
            count=NUMBERS[len(parts)], document=code(first.document), place=code(survey.workdir)
        )
    ]
    known: set[str] = set()
    steps: list[str] = []
    for number, part in enumerate(parts, 1):
        plan, trial = part.plan, part.trial
        facts = [trial.printed] if trial.printed else list(trial.created)
        runs = [] if trial.printed else list(trial.runs)
        for fact in [*_saved(plan, survey), *facts]:
            add_checks(writer, fact, PurePosixPath(fact.path).stem)
        for run in runs:
            add_program_check(writer, run, PurePosixPath(run.path).name)
        paragraphs.append(
            f"{number}. " + _body(plan, trial, facts, runs, survey, known, brief=True).replace("\n", "\n   ")
        )
        steps += [s for s in trial.steps if s not in steps]
    return TaskInstance(
        repository_id=given.repository.repository_id,
        image_digest=given.image_digest,
        instruction="\n\n".join(paragraphs),
        solution=tuple(steps),
        verifier=Verifier(files=(VerifierFile(path="test_state.py", content=writer.text()),)),
        generator=GENERATOR,
        language=given.repository.language,
        family="several_results",
        difficulty="hard" if sum(_weight(p.plan) for p in parts) >= 6 else "medium",
        provenance=_provenance(parts[0].plan, tree) | {"lines": ",".join(str(p.plan.block.line) for p in parts)},
    )


def _saved(plan: Plan, survey: Survey) -> list[Fact]:
    """Programs that are to be saved as the document shows them: results beside what they print."""
    if plan.kind != "program":
        return []
    return [Fact(f"{survey.workdir}/{name}", "text", text.encode()) for name, text in plan.files]


def _provenance(plan: Plan, tree: Tree) -> dict[str, str]:
    document = plan.block.document
    return {
        "document": document,
        "line": str(plan.block.line),
        "heading": " > ".join(plan.block.headings)[:200],
        "document_sha256": hashlib.sha256(tree.read(document)).hexdigest(),
        "kind": plan.kind,
        "output_documented": "yes" if plan.shown else "no",
    }


def _verifier(plan: Plan, goal: str, facts: list[Fact], runs: list[ProgramRun]) -> str:
    writer = Writer()
    if len(facts) + len(runs) == 1:
        writer.single((facts or runs)[0].path)
    for fact in facts:
        add_checks(writer, fact, _subject(plan, goal, fact, len(facts)))
    for run in runs:
        add_program_check(writer, run, PurePosixPath(run.path).name)
    return writer.text()


def _subject(plan: Plan, goal: str, fact: Fact, number: int) -> str:
    name = PurePosixPath(fact.path)
    return name.stem if number > 1 or fact.kind == "sqlite" else slug_of(plan, goal).replace("-", " ")


def _family(plan: Plan, trial: Trial, runs: list[ProgramRun]) -> str:
    if runs:
        return "built_program"
    if plan.before:
        return "chained_steps"
    if trial.printed is None:
        return "database" if any(f.kind == "sqlite" for f in trial.created) else "created_files"
    return "converted_input" if plan.files else "printed_text"


def _difficulty(plan: Plan) -> Literal["easy", "medium", "hard"]:
    """By the number of commands, files and options that a solution needs."""
    points = _weight(plan)
    return "easy" if points < 3 else "medium" if points < 6 else "hard"


def _weight(plan: Plan) -> float:
    own = [stage for step in plan.steps for stage in stages(step)]
    options = sum(word.startswith("-") for stage in own for word in stage.words)
    program = 1.0 if plan.kind != "shell" else 0.0
    return len(own) + 0.5 * options + len(plan.files) + program + sum(_weight(p) for p in plan.before)


def _instruction(plan: Plan, goal: str, trial: Trial, facts: list[Fact], runs: list[ProgramRun], survey: Survey) -> str:
    return (
        " ".join(x for x in (context_of(plan, goal), goal) if x)
        + "\n\n"
        + _body(plan, trial, facts, runs, survey, set(), brief=False)
    )


def _body(
    plan: Plan, trial: Trial, facts: list[Fact], runs: list[ProgramRun], survey: Survey, known: set[str], *, brief: bool
) -> str:
    """What is given, what is to be done and what must come out; with the goal in front when `brief`."""
    printed = trial.printed
    paragraphs = []
    for earlier in plan.before:
        setup = _given(earlier, known)
        if setup or earlier.text not in known:
            paragraphs += [setup, f"Before that: {_lower(how(earlier, survey))}"]
        known.add(earlier.text)
    paragraphs.append(_given(plan, known))
    result = _capital(shape(printed, with_name=False)) if printed is not None else ""
    if not result:
        result = "\n".join([*(_capital(shape(f, with_name=True)) for f in facts), *map(_run_shape, runs)])
    work = _work(plan, printed, survey, brief=brief)
    paragraphs += [f"{goal_of(plan)} {work} {result}"] if brief else [work, result]
    return "\n\n".join(p for p in paragraphs if p)


def _run_shape(run: ProgramRun) -> str:
    if not run.lines:
        return f"{code(run.path)} must be the compiled program, ready to be started."
    where = f", started in {code(run.directory)} without arguments,"
    count = len(run.lines)
    text = f"{code(run.path)}{where} exits with 0 and prints "
    if count <= 8 and max(map(len, run.lines)) < 100:
        return text + "exactly\n\n" + fenced("\n".join(run.lines))
    return text + f"{count} lines, from {code(run.lines[0].strip())} to {code(run.lines[-1].strip())}."


def _given(plan: Plan, known: set[str]) -> str:
    files = [(name, text) for name, text in plan.files if name not in known]
    known |= {name for name, _ in files}
    if not files:
        return ""
    if plan.kind == "program":
        under = f" under “{plan.block.headings[-1]}”" if plan.block.headings else ""
        where = f"{under} in {code(plan.block.document)}, from line {plan.block.line} on,"
        return f"Save the program that stands{where} as {code(files[0][0])}, unchanged."
    return _choice(plan, ("Create", "Start with", "Make", "Needed first:")) + " " + inputs(files)


def _work(plan: Plan, printed: Fact | None, survey: Survey, *, brief: bool) -> str:
    place = code(survey.workdir)
    details = "" if brief else reference(plan, survey)
    more = (
        _choice(plan, (f"Details: {details}.", f"See {details}.", f"{details} explains more.", "")) if details else ""
    )
    if plan.kind == "sample":
        words = next(s.words for s in stages(plan.steps[-1]) if "-o" in s.words)
        source, target = (
            next(w for w in words if "/" in w and "." in w and w != words[words.index("-o") + 1]),
            words[words.index("-o") + 1],
        )
        build = _choice(
            plan,
            (
                f"Build {code(source)} into {code(f'{survey.workdir}/{target}')}, linked with the installed library.",
                f"Compile the sample {code(source)}; the program belongs at {code(f'{survey.workdir}/{target}')}.",
                f"{code(f'{survey.workdir}/{target}')} must be {code(source)}, compiled and linked.",
            ),
        )
        return " ".join(x for x in (build, more) if x)
    if printed is not None:
        target = code(printed.path)
        options = (
            f"Save the output as {target}.",
            f"Write what this prints to {target}.",
            f"{target} must hold the output.",
            f"The result belongs in {target}.",
        )
    else:
        options = ("", f"Work in {place}.", f"All of it happens in {place}.", f"Paths are relative to {place}.")
    return " ".join(x for x in (how(plan, survey), _choice(plan, options), more) if x)


def _choice(plan: Plan, options: tuple[str, ...]) -> str:
    """One wording of several, the same for the same plan."""
    return options[int(hashlib.sha256(f"{plan.block.document}:{plan.text}".encode()).hexdigest(), 16) % len(options)]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:] if text and text[0].isalpha() else text


def _lower(text: str) -> str:
    return text[0].lower() + text[1:] if text else text
