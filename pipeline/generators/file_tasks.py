"""Easy tasks about the files of a repository: what everybody does at a command line, on files that are really there.

They stand beside what a repository documents, so that small models and untrained ones find something that they can do.
What is asked is in file_texts.py and file_states.py; whether a task is admitted is pipeline/instances.py's.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pydantic import Field

from pipeline.generators import file_states, file_texts
from pipeline.generators.documents import Tree
from pipeline.generators.file_texts import FileTask, Material
from pipeline.generators.protocol import Candidate, GeneratorInput, Start, refusal
from pipeline.generators.survey import Survey, survey
from pipeline.types import Record, TaskInstance, Verifier, VerifierFile

GENERATOR = "files"
FAMILIES = {family.__name__: family for family in (*file_texts.FAMILIES, *file_states.FAMILIES)}
_NAME = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)
_TEXT = re.compile(rb"[\t\n\x20-\x7e]+")
_ASIDE = re.compile(r"(?:^|/)(?:debian|vendor|node_modules|third_party|[^/]*\.min\.\w+|\.[^/]+)(?:/|$)")
_SIZE = range(300, 40_000)
_LINES = range(12, 600)
_MOST_BESIDE = 12
"""Files of a folder that is worked with as a whole."""
_LOOKED_AT = 60
"""Files of a repository that are read to find texts."""


class FilesConfig(Record):
    """How many tasks are made of the files of a repository."""

    max_tasks: int = Field(default=2, ge=0)
    """Tasks per repository, each about another file, as far as there are enough. Up to the number of families each is
    of another family; a larger number goes round the families again, and a file may have a task of each."""


class Files:
    """The generator of tasks about files."""

    name = GENERATOR

    def __init__(self, config: FilesConfig | None = None) -> None:
        self._config = config or FilesConfig()

    def instances(self, given: GeneratorInput, start: Start) -> Iterator[Candidate]:
        """See Generator. Raises SandboxUnavailable; ItemRejected when the image has no usable shell."""
        if not self._config.max_tasks:
            return
        sandbox = start()
        try:
            found = survey(sandbox, ())
        finally:
            sandbox.close()
        tree = Tree.open(given.tree)
        made = 0
        for family, task, material in itertools.islice(self._tasks(given, tree, found), self._config.max_tasks):
            made += 1
            yield _candidate(given, family, task, material)
        if made < self._config.max_tasks:
            yield refusal("", 0, "", "no_text_file", "too few of its files are plain texts of some lines")

    def _tasks(self, given: GeneratorInput, tree: Tree, found: Survey) -> Iterator[tuple[str, FileTask, Material]]:
        """One task of each family that finds a file, and so round again until a whole round found none.

        Files that have no task yet come first; in a second round and later a file may have one of each family.
        """
        chance = random.Random(given.repository.repository_id)
        names = _texts(tree, found.files)
        chance.shuffle(names)
        families = list(FAMILIES)
        chance.shuffle(families)
        taken: dict[str, set[str]] = {family: set() for family in families}
        solved: set[tuple[str, ...]] = set()
        fresh, made = list(names), True
        while made:
            made = False
            for family in families:
                others = [name for name in names if name not in fresh] if self._config.max_tasks > len(families) else []
                for name in (name for name in [*fresh, *others] if name not in taken[family]):
                    material = _material(tree, found, name, chance)
                    # What asks about a whole folder asks the same for each of its files.
                    if (task := FAMILIES[family](material)) is not None and task.solution not in solved:
                        made = True
                        solved.add(task.solution)
                        taken[family].add(name)
                        fresh = [one for one in fresh if one != name]
                        yield family, task, material
                        break
            if self._config.max_tasks <= len(families):
                return


def _material(tree: Tree, found: Survey, name: str, chance: random.Random) -> Material:
    return Material(
        workdir=found.workdir,
        name=name,
        text=tree.text(name),
        neighbours=_neighbours(tree, found.files, name),
        chance=chance,
    )


def _texts(tree: Tree, present: frozenset[str]) -> list[str]:
    """Names of plain texts that lie in the image too, those near the top first."""
    fit = [
        name
        for name, size in tree.sizes.items()
        if name in present and size in _SIZE and _NAME.fullmatch(name) and not _ASIDE.search(name)
    ]
    fit = sorted(fit, key=lambda name: (name.count("/"), name))[:_LOOKED_AT]
    tree.load(set(fit))
    return [name for name in fit if _is_text(tree.read(name))]


def _is_text(content: bytes) -> bool:
    return content.endswith(b"\n") and content.count(b"\n") in _LINES and _TEXT.fullmatch(content) is not None


def _neighbours(tree: Tree, present: frozenset[str], name: str) -> Mapping[str, bytes]:
    """Files beside it, by their names alone; empty when the image has others there than the repository."""
    folder = PurePosixPath(name).parent
    beside = [one for one in tree.sizes if PurePosixPath(one).parent == folder]
    there = {one for one in present if PurePosixPath(one).parent == folder}
    plain = all(_NAME.fullmatch(one) or one.rpartition("/")[2].startswith(".") for one in beside)
    if set(beside) != there or not plain or len(beside) > _MOST_BESIDE:
        return {}
    shown = [one for one in beside if not one.rpartition("/")[2].startswith(".")]
    tree.load(set(shown))
    return {PurePosixPath(one).name: tree.read(one) for one in shown}


def _candidate(given: GeneratorInput, family: str, task: FileTask, material: Material) -> Candidate:
    sha256 = hashlib.sha256(material.text.encode()).hexdigest()
    instance = TaskInstance(
        repository_id=given.repository.repository_id,
        image_digest=given.image_digest,
        instruction=f"{task.instruction}\n\nPaths are relative to `{material.workdir}`, the folder of the repository.",
        solution=task.solution,
        verifier=Verifier(files=(VerifierFile(path="test_state.py", content=task.verifier),)),
        generator=GENERATOR,
        language=given.repository.language,
        family=family,
        difficulty="easy",
        provenance={"document": material.name, "line": "1", "document_sha256": sha256},
    )
    return Candidate(
        document=material.name,
        line=1,
        excerpt=task.instruction[:300],
        instance=instance,
        right=task.right,
        weak=task.weak,
    )
