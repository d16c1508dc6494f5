"""Tasks to write a program: it must do to any file what a documented snippet does to its own literal.

The verifier runs the program on texts that the instruction does not show, so printing the documented result is not
enough. The programs come from programs.py.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from xml.etree import ElementTree

from pipeline.generators.documents import Block, Tree
from pipeline.generators.facts import classify, normalised_lines
from pipeline.generators.novelty import Novelty
from pipeline.generators.phrasing import code, fenced, reference
from pipeline.generators.plans import Plan
from pipeline.generators.programs import STARTS, SUFFIX, Snippet, inputs_for
from pipeline.generators.prose import goal_of, sentences_of
from pipeline.generators.protocol import Candidate, GeneratorInput, Start
from pipeline.generators.survey import Survey
from pipeline.generators.trials import UNSTABLE, write_file
from pipeline.generators.writer import literal
from pipeline.types import TaskInstance, Verifier, VerifierFile
from sandbox.protocol import Sandbox

MAX_SNIPPETS = 14
PARTS = 3
HIDDEN = 2
RUN_TIMEOUT_S = 30.0
MAX_OUTPUT = 60_000


VERIFIER = """{imports}import subprocess
from pathlib import Path

PROGRAM = Path({program})
TEXTS = {texts}
RESULTS = {results}


def test_{name}(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    printed = {{
        name: subprocess.check_output([{starts}, PROGRAM, tmp_path / name], cwd=PROGRAM.parent, text=True, timeout=60)
        for name in TEXTS
    }}
    assert {{name: {reading} for name, text in printed.items()}} == RESULTS
"""
READINGS = {
    "json": ("json.loads(text)", "import json\n"),
    "xml": ("ElementTree.canonicalize(text, strip_text=True)", "import xml.etree.ElementTree as ElementTree\n"),
    "text": ("[line.rstrip() for line in text.rstrip().splitlines()]", ""),
}


@dataclass(frozen=True)
class _Case:
    text: str
    lines: tuple[str, ...]


class ProgramTasks:
    """Tries snippets of one repository."""

    def __init__(
        self, given: GeneratorInput, start: Start, survey: Survey, tree: Tree, blocks: list[Block], novelty: Novelty
    ) -> None:
        self._given = given
        self._start = start
        self._survey = survey
        self._tree = tree
        self._blocks = blocks
        self._novelty = novelty
        self._names: set[str] = set(survey.files)
        self._spare: list[TaskInstance] = []

    def make(self, found: list[Snippet], limit: int) -> Iterator[Candidate]:
        """Candidates for at most `limit` tasks; every snippet is accounted for. Raises SandboxUnavailable."""
        made = tried = 0
        seen: set[str] = set()
        for snippet in _in_turns(found):
            if made >= limit or tried >= MAX_SNIPPETS:
                yield self._rejected(snippet, "not_chosen", "this repository has enough programs")
                continue
            if snippet.source in seen or not self._goal(snippet):
                yield self._rejected(snippet, "no_goal", "no prose of its own, or the same program stands elsewhere")
                continue
            seen.add(snippet.source)
            tried += 1
            outcome = self._try(snippet, found)
            if isinstance(outcome, TaskInstance) and not self._novelty.take(outcome):
                self._spare.append(outcome)
                yield self._rejected(
                    snippet, "part_of_bundle", "alone it would be a near copy; it may be part of a task with several"
                )
            elif isinstance(outcome, TaskInstance):
                made += 1
                yield Candidate(
                    document=snippet.block.document,
                    line=snippet.block.line,
                    excerpt=snippet.block.text[:300],
                    instance=outcome,
                )
            else:
                yield self._rejected(snippet, *outcome)

    def _try(self, snippet: Snippet, others: list[Snippet]) -> TaskInstance | tuple[str, str]:
        name = self._name(snippet)
        texts = inputs_for(snippet, others, self._blocks, self._tree)
        first = self._run(snippet, name, texts)
        if isinstance(first, tuple):
            return first
        cases = _different(first)
        if not cases or cases[0].text != snippet.example:
            return "failed", "the documented input itself gives nothing"
        if len(cases) < 2:
            return "trivial", "every input gives the same result"
        second = self._run(snippet, name, [c.text for c in cases])
        if isinstance(second, tuple) or second != cases:
            return "not_deterministic", "two runs printed different texts"
        return self._instance(snippet, name, cases)

    def bundles(self, limit: int) -> Iterator[Candidate]:
        """Tasks of several programs, each one that alone would be a near copy of an earlier task."""
        for start in range(0, min(len(self._spare) - 1, limit * PARTS), PARTS):
            parts = self._spare[start : start + PARTS]
            if len(parts) < 2:
                return
            first = parts[0]
            files = [
                VerifierFile(path=f"test_program_{number}.py", content=part.verifier.files[0].content)
                for number, part in enumerate(parts, 1)
            ]
            count = "Two" if len(parts) == 2 else "Three"
            instruction = f"{count} programs are needed.\n\n" + "\n\n".join(
                f"({number}) {part.instruction}" for number, part in enumerate(parts, 1)
            )
            bundle = first.model_copy(
                update={
                    "instruction": instruction,
                    "solution": tuple(step for part in parts for step in part.solution),
                    "verifier": Verifier(files=tuple(files)),
                    "family": "several_programs",
                    "difficulty": "hard",
                    "provenance": first.provenance | {"documents": ",".join(p.provenance["document"] for p in parts)},
                }
            )
            place = first.provenance
            yield Candidate(
                document=place["document"], line=int(place["line"]), excerpt=instruction[:300], instance=bundle
            )

    def _name(self, snippet: Snippet) -> str:
        """A new file name after the document and the heading."""
        stem = PurePosixPath(snippet.block.document).stem.lower()
        title = snippet.block.headings[-1] if snippet.block.headings else ""
        words = [] if stem in {"readme", "index"} else re.findall(r"[a-z]+", stem)
        words += [w for w in re.findall(r"[a-z]+", title.lower()) if w not in words and len(w) > 2]
        slug = "-".join(words[:3]) or "program"
        name, number = f"{slug}{SUFFIX[snippet.language]}", 2
        while name in self._names:
            name, number = f"{slug}-{number}{SUFFIX[snippet.language]}", number + 1
        self._names.add(name)
        return name

    def _run(self, snippet: Snippet, name: str, texts: list[str]) -> list[_Case] | tuple[str, str]:
        """What the program prints for each text that it accepts."""
        sandbox = self._start()
        try:
            sandbox.execute(write_file(name, snippet.source), timeout_s=RUN_TIMEOUT_S)
            sandbox.put({f"/tmp/inputs/{i}.txt": text.encode() for i, text in enumerate(texts)})
            cases = []
            fault = "nothing was printed"
            for index, text in enumerate(texts):
                command = (
                    f"{STARTS[snippet.language]} {shlex.quote(name)} /tmp/inputs/{index}.txt > /tmp/inputs/{index}.out"
                )
                result = sandbox.execute(command, timeout_s=RUN_TIMEOUT_S)
                printed = _printed(sandbox, f"/tmp/inputs/{index}.out")
                noisy = any(
                    word in printed
                    for word in ("Warning: ", "Fatal error: ", "Notice: ", "Deprecated: ", "Parse Error", "/tmp/inputs")
                )
                if result.exit_code == 0 and printed.strip() and not noisy and not UNSTABLE.search(printed):
                    cases.append(_Case(text, tuple(normalised_lines(printed))))
                elif index == 0:
                    fault = " ".join((result.output + printed).split())[:200] or fault
                    return "failed", fault
            return cases
        finally:
            sandbox.close()

    def _plan(self, snippet: Snippet) -> Plan:
        return Plan("program", snippet.block, (f"{STARTS[snippet.language]} program",))

    def _goal(self, snippet: Snippet) -> str:
        """What the example is for, with what the document says at its beginning: an example alone says little."""
        block = snippet.block
        goal = goal_of(self._plan(snippet))
        context = [*sentences_of(block.opening), *sentences_of(block.section_prose)]
        text = " ".join(dict.fromkeys(s for s in context if s not in goal))
        text = " ".join([*([text] if len(text.split()) < 90 else []), goal]).strip()
        return text or _goal_from_code(snippet)

    def _instance(self, snippet: Snippet, name: str, cases: list[_Case]) -> TaskInstance:
        document = snippet.block.document
        return TaskInstance(
            repository_id=self._given.repository.repository_id,
            image_digest=self._given.image_digest,
            instruction=self._instruction(snippet, name, cases[0]),
            solution=(write_file(name, snippet.source),),
            verifier=Verifier(
                files=(VerifierFile(path="test_program.py", content=self._verifier(snippet, name, cases)),)
            ),
            generator="documented",
            language=self._given.repository.language,
            family="written_program",
            difficulty="medium" if len(snippet.source.splitlines()) < 16 else "hard",
            provenance={
                "document": document,
                "line": str(snippet.block.line),
                "heading": " > ".join(snippet.block.headings)[:200],
                "document_sha256": hashlib.sha256(self._tree.read(document)).hexdigest(),
                "kind": "program",
                "output_documented": "no",
            },
        )

    def _instruction(self, snippet: Snippet, name: str, shown: _Case) -> str:
        plan = self._plan(snippet)
        call = code(f"{STARTS[snippet.language]} {name} FILE")
        where = reference(plan, self._survey) or code(snippet.block.document)
        load = f" Load the library with {code(snippet.loading)}." if snippet.loading else ""
        target = code(f"{self._survey.workdir}/{name}")
        wordings = (
            f"Turn the example of {where} into {target}: {call} takes its text from FILE.{load}",
            f"{target} is wanted: {call} prints what that example, {where}, gives for the content of FILE.{load}",
            f"Make this usable on files. {call} shall print the result for FILE, with the settings shown in {where}; "
            f"it lives at {target}.{load}",
            f"Write {target} after {where}, but reading the file named by its argument ({call}).{load}",
        )
        work = wordings[int(hashlib.sha256(snippet.source.encode()).hexdigest(), 16) % len(wordings)]
        many = len(shown.lines) > 12
        printed = fenced("\n".join(shown.lines)) if not many else ""
        size = f" of {len(shown.lines)} lines, from {code(shown.lines[0])} to {code(shown.lines[-1])}" if many else ""
        example = f"Input, for instance:\n\n{fenced(shown.text)}\n\nOutput{size}{'.' if many else ':'}"
        return "\n\n".join(x for x in (self._goal(snippet), work, example, printed) if x)

    def _verifier(self, snippet: Snippet, name: str, cases: list[_Case]) -> str:
        suffix = ".md" if snippet.language == "php" and "<?php" not in cases[0].text else SUFFIX[snippet.language]
        kinds = {classify("", "\n".join(c.lines).encode()) for c in cases}
        kind = kinds.pop() if len(kinds) == 1 and kinds <= {"json", "xml"} else "text"
        names = [f"shown{suffix}", *(f"hidden{n}{suffix}" for n in range(1, len(cases)))]
        texts = "".join(f"    {literal(n)}: {_block(c.text)},\n" for n, c in zip(names, cases, strict=True))
        results = {n: _result(c, kind) for n, c in zip(names, cases, strict=True)}
        reading, imports = READINGS[kind]
        return VERIFIER.format(
            imports=imports,
            program=literal(f"{self._survey.workdir}/{name}"),
            texts="{\n" + texts + "}",
            results=literal(results),
            name=re.sub(r"\W+", "_", name.rsplit(".", 1)[0]) + "_on_several_texts",
            starts=literal(STARTS[snippet.language]),
            reading=reading,
        )

    def _rejected(self, snippet: Snippet, failure_class: str, reason: str) -> Candidate:
        block = snippet.block
        return Candidate(
            document=block.document,
            line=block.line,
            excerpt=block.text[:300],
            failure_class=failure_class,
            reason=reason,
        )


def _in_turns(found: list[Snippet]) -> list[Snippet]:
    """The first of each document, then the second of each, and so on."""
    seen: dict[str, int] = {}
    turns = []
    for snippet in found:
        turns.append(seen.get(snippet.block.document, 0))
        seen[snippet.block.document] = turns[-1] + 1
    return [snippet for _, _, snippet in sorted(zip(turns, range(len(found)), found, strict=True), key=lambda x: x[:2])]


def _goal_from_code(snippet: Snippet) -> str:
    """For a snippet that no prose introduces: the call that takes its text."""
    match = re.search(r"(\$?\w+(?:->|::|\.)\w+)\((?:file_get_contents|require\(\"fs\"\))", snippet.source)
    return f"Apply {code(match[1] + '()')} to whole files." if match else ""


def _block(text: str) -> str:
    """A text as one literal, or as adjacent ones, one per line."""
    if len(text) < 70:
        return literal(text)
    return "(\n" + "".join(f"        {literal(line)}\n" for line in text.splitlines(keepends=True)) + "    )"


def _result(case: _Case, kind: str) -> object:
    text = "\n".join(case.lines)
    if kind == "json":
        return json.loads(text)
    return ElementTree.canonicalize(text, strip_text=True) if kind == "xml" else list(case.lines)


def _printed(sandbox: Sandbox, path: str) -> str:
    try:
        return (sandbox.get(path, max_bytes=MAX_OUTPUT) or b"").decode("utf-8", "replace")
    except ValueError:
        return ""


def _different(cases: list[_Case]) -> list[_Case]:
    """The first case and those later ones whose results are new and not much longer than what can be read."""
    chosen: list[_Case] = []
    for case in cases:
        if all(case.lines != c.lines for c in chosen) and (
            not chosen or (len(case.lines) < 90 and list(case.lines) != normalised_lines(case.text))
        ):
            chosen.append(case)
    rest = sorted(chosen[1:], key=lambda c: -len(c.lines))[:HIDDEN]
    return [*chosen[:1], *(c for c in chosen[1:] if c in rest)]
