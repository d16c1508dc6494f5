"""Tasks that a language model writes from documents, scripts and code of the repository in the image.

The model infers backwards what a user would have asked, and gives request, solution and verifier; what admission finds
wrong goes back to it a few times. Nothing it says is believed: the same gates as for every task decide.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from pipeline.admission.records import Admission
from pipeline.generators.documents import Tree, document_names
from pipeline.generators.protocol import Candidate, GeneratorInput, Start, refusal
from pipeline.llm.answers import NoAnswer, object_of, python_of
from pipeline.llm.protocol import ChatModel, Completion, Message, PromptRefused, Sampling
from pipeline.prompts import fenced, prompt
from pipeline.types import Record, TaskInstance, Verifier, VerifierFile

logger = logging.getLogger(__name__)

WRITE, MEND = "write_task", "mend_task"
_CODE = re.compile(r"\.(?:sh|bash|py|js|mjs|ts|go|c|cc|cpp|h|hpp|java|php)$|(?:^|/)Makefile$")
_ASIDE = re.compile(r"(?:^|/)(?:tests?|debian|vendor|node_modules|third_party|\.[^/]+)(?:/|$)")
_SURVEY_S = 20
_PROGRAMS = 60
_FILES = 60
_EVIDENCE = 1_500
_LEAST_CHARACTERS = 200

Admit = Callable[[TaskInstance], Admission]
"""Puts a task through all gates. Raises SandboxUnavailable."""


class LlmConfig(Record):
    """How many tasks a model is asked for, and how."""

    tasks: int = Field(default=6, gt=0)
    """Pieces of material per repository, one task asked for each."""
    rounds: int = Field(default=3, gt=0)
    """Answers per task: the first and those after a failure."""
    material_characters: int = Field(default=6_000, ge=1_000)
    temperature: float = Field(default=0.7, ge=0.0)
    max_tokens: int = Field(default=3_000, gt=0)


class Task(Record):
    """What the model answers."""

    instruction: str = Field(min_length=20, max_length=6_000)
    solution: tuple[str, ...] = Field(min_length=1, max_length=40)
    verifier: str = Field(min_length=20, max_length=40_000)
    difficulty: Literal["easy", "medium", "hard"]


class Material(Record):
    """A part of one file."""

    path: str
    line: int
    text: str


class Llm:
    """The generator that asks a model."""

    name = "llm"

    def __init__(self, model: ChatModel, admit: Admit, config: LlmConfig | None = None) -> None:
        self._model = model
        self._admit = admit
        self._config = config or LlmConfig()

    def instances(self, given: GeneratorInput, start: Start) -> Iterator[Candidate]:
        """See Generator. Raises SandboxUnavailable, ImageMissing and ModelUnavailable."""
        tree = Tree.open(given.tree)
        workdir, programs = _surroundings(start)
        for number, piece in enumerate(materials(tree, self._config.tasks, self._config.material_characters)):
            question = prompt(WRITE).render(
                language=given.repository.language,
                name=given.repository.name,
                workdir=workdir,
                programs=programs,
                document=piece.path,
                material=fenced(piece.text),
                files=fenced("\n".join(_nearest(list(tree.sizes)))),
            )
            yield self._written(given, piece, question, seed=number)

    def _written(self, given: GeneratorInput, piece: Material, question: str, seed: int) -> Candidate:
        """One task after at most `rounds` answers; the last failure when none was good."""
        talk = [Message(role="user", content=question)]
        last = refusal(piece.path, piece.line, piece.text, "no_answer", "the model was not asked")
        for number in range(1, self._config.rounds + 1):
            try:
                answer = self._model.complete(talk, self._sampling(seed))
            except PromptRefused as error:
                return refusal(piece.path, piece.line, piece.text, "prompt_refused", str(error))
            try:
                task = read_task(answer.text)
            except NoAnswer as fault:
                last = refusal(piece.path, piece.line, piece.text, "no_answer", str(fault))
                failures = f"- {fault}"
            else:
                instance = self._instance(given, piece, task, answer, seed, number)
                admission = self._admit(instance)
                last = Candidate(
                    document=piece.path, line=piece.line, excerpt=task.instruction[:300], instance=instance
                )
                if admission.admitted:
                    return last
                failures = _failures(admission)
            logger.info("%s %s, answer %d: %s", given.repository.full_name, piece.path, number, failures[:200])
            talk = [
                Message(role="user", content=question),
                Message(role="assistant", content=answer.text),
                Message(role="user", content=prompt(MEND).render(failures=failures)),
            ]
        return last

    def _sampling(self, seed: int) -> Sampling:
        config = self._config
        schema = Task.model_json_schema()
        return Sampling(temperature=config.temperature, max_tokens=config.max_tokens, seed=seed, answer_schema=schema)

    def _instance(
        self, given: GeneratorInput, piece: Material, task: Task, answer: Completion, seed: int, rounds: int
    ) -> TaskInstance:
        return TaskInstance(
            repository_id=given.repository.repository_id,
            image_digest=given.image_digest,
            instruction=task.instruction,
            solution=task.solution,
            verifier=Verifier(files=(VerifierFile(path="test_state.py", content=task.verifier),)),
            generator=self.name,
            language=given.repository.language,
            family="written_by_a_model",
            seed=seed,
            difficulty=task.difficulty,
            provenance={
                "document": piece.path,
                "line": str(piece.line),
                "model": self._model.name,
                "served_model": answer.model,
                "prompt_sha256": prompt(WRITE).sha256,
                "mend_prompt_sha256": prompt(MEND).sha256,
                "temperature": f"{self._config.temperature:g}",
                "answers": str(rounds),
            },
        )


def read_task(answer: str) -> Task:
    """The task of an answer; the verifier may stand in a fence inside the JSON string or beside the object.

    Raises NoAnswer.
    """
    task = object_of(answer, Task)
    return task.model_copy(update={"verifier": python_of(task.verifier)})


def materials(tree: Tree, limit: int, most_characters: int) -> list[Material]:
    """Parts of the repository to make tasks from: its documents first, then scripts and code near the root."""
    code = [name for name in tree.sizes if _CODE.search(name) and not _ASIDE.search(name)]
    names = [*document_names(tree), *sorted(code, key=lambda name: (name.count("/"), name))]
    found: list[Material] = []
    for name in names:
        if len(found) >= limit:
            break
        # Two parts of the readme at most: other files show other uses.
        found += _parts(name, tree.text(name), most_characters)[:2]
    return found[:limit]


def _parts(path: str, text: str, most: int) -> list[Material]:
    """A text cut at headings and empty lines into parts of at most `most` characters."""
    parts: list[Material] = []
    line = 1
    while text:
        cut = len(text)
        if cut > most:
            heading = max(text.rfind("\n#", most // 2, most), text.rfind("\n\n", most // 2, most))
            cut = heading + 1 if heading > 0 else most
        if len(text[:cut].strip()) >= _LEAST_CHARACTERS:
            parts.append(Material(path=path, line=line, text=text[:cut]))
        line += text[:cut].count("\n")
        text = text[cut:]
    return parts


def _surroundings(start: Start) -> tuple[str, str]:
    """Working directory of the image, and some programs that were put there beside Debian's own."""
    sandbox = start()
    try:
        workdir = sandbox.execute("pwd", timeout_s=_SURVEY_S).output.strip()
        places = shlex.join(["/usr/local/bin", "/opt/venv/bin", "/usr/local/go/bin"])
        listed = sandbox.execute(f"ls {places} 2>/dev/null | grep -v : | sort -u", timeout_s=_SURVEY_S).output.split()
    finally:
        sandbox.close()
    return workdir, ", ".join(["bash", "coreutils", "python3", *listed[:_PROGRAMS]])


def _nearest(names: Sequence[str]) -> list[str]:
    nearest = sorted(names, key=lambda name: (name.count("/"), name))
    left_out = len(nearest) - _FILES
    return nearest[:_FILES] + ([f"… and {left_out} more"] if left_out > 0 else [])


def _failures(admission: Admission) -> str:
    """What the gates found, in words for the model."""
    return "\n".join(f"- {gate.gate}: {gate.evidence[:_EVIDENCE]}" for gate in admission.gates if not gate.passed)
