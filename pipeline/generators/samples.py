"""Sample programs that a C or C++ repository ships and its documents speak of: to be built and run."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from pipeline.generators.documents import Block, Tree, document_names, paragraphs_of
from pipeline.generators.plans import Plan
from pipeline.generators.prose import goal_of
from pipeline.generators.survey import Survey

FOLDERS = {"samples", "sample", "examples", "example", "demo", "demos"}
COMPILERS = {"c": ("cc", {".c"}), "cpp": ("c++", {".cpp", ".cc", ".cxx"})}
MAX_SAMPLES = 12


def sample_plans(tree: Tree, language: str, survey: Survey) -> list[Plan]:
    """One plan per sample program that some document introduces in prose; in the order of their paths."""
    if language not in COMPILERS:
        return []
    compiler, suffixes = COMPILERS[language]
    names = [
        n
        for n in sorted(tree.sizes)
        if PurePosixPath(n).suffix in suffixes and FOLDERS & set(PurePosixPath(n).parts[:-1])
    ]
    tree.load(set(names))
    names = [n for n in names if re.search(r"\bmain\s*\(", tree.text(n))]
    found = []
    for name in names:
        block = _introduction(tree, name) or _standing_alone(tree, name)
        stem = PurePosixPath(name).stem.replace("_", "-")
        links = " ".join(f"-l{lib}" for lib in survey.libraries)
        plan = Plan("sample", block, (f"mkdir -p bin && {compiler} -O1 -o bin/{stem} {name} {links}".rstrip(),))
        if goal_of(plan):
            found.append(plan)
    return found[:MAX_SAMPLES]


def _standing_alone(tree: Tree, name: str) -> Block:
    """For a sample that no document speaks of: the source is its own document."""
    prose = f"{name} is a sample program that shows how to use the library."
    return Block(name, 1, (), prose, "", tree.text(name), prose)


def _introduction(tree: Tree, name: str) -> Block | None:
    """The paragraph that names the sample, as the prose of a block that stands for its source."""
    base = PurePosixPath(name).name
    for document in document_names(tree):
        text = tree.text(document)
        if base not in text:
            continue
        for line, heading, paragraph in paragraphs_of(text):
            if base in paragraph:
                prose = re.sub(
                    rf"\s*\((?:link:)?[^()]*{re.escape(base)}[^()]*\)|\S*{re.escape(base)}\S*", "", paragraph
                )
                return Block(document, line, (heading,) if heading else (), prose, "", tree.text(name), prose)
    return None
