"""Programs that a Makefile of the repository builds: a documented way to build, seldom described in prose."""

from __future__ import annotations

import re

from pipeline.generators.documents import Block, Tree, document_names, paragraphs_of
from pipeline.generators.plans import Plan
from pipeline.generators.prose import sentences_of

MAX_TARGETS = 5
RULE = re.compile(r"^([A-Za-z][\w./-]*)\s*:(?![=:])\s*([^\n#]*)$", re.MULTILINE)
HOUSEKEEPING = re.compile(
    r"^(?:all|clean|distclean|install\S*|uninstall\S*|test\S*|check\S*|dist|help|default|lint|fmt|format|release|update|docs?|depend|\S*\.(?:o|a|so|h|c))$"
)


def target_plans(tree: Tree, blocks: list[Block]) -> list[Plan]:
    """One plan per target of the top Makefile that links a program; in the order of the file."""
    name = next((n for n in ("Makefile", "GNUmakefile", "makefile") if n in tree.sizes), None)
    if name is None or tree.sizes[name] > 60_000:
        return []
    text = tree.text(name)
    variables = {k: v.strip() for k, v in re.findall(r"^(\w+)\s*[:?]?=\s*(.*)$", text, re.MULTILINE)}
    expanded = re.sub(r"\$[({](\w+)[)}]", lambda m: variables.get(m[1], m[0]), text)
    phony = set(" ".join(re.findall(r"^\.PHONY\s*:(.*)$", expanded, re.MULTILINE)).split())
    about = _about(tree, blocks)
    found: list[Plan] = []
    for match in RULE.finditer(expanded):
        target = match[1]
        recipe = re.match(r"\n((?:\t[^\n]*\n?)+)", expanded[match.end() :])
        implicit = recipe is None and re.search(rf"(?:^|[\s/]){re.escape(target)}\.(?:c|cc|cpp|cxx)\b", match[2])
        links = implicit or (
            recipe and re.search(r"\$\((?:CC|CXX|LD)\)|\b(?:gcc|g\+\+|cc|c\+\+)\b|\bgo build\b|-o\s", recipe[1])
        )
        if (
            HOUSEKEEPING.match(target)
            or target in phony
            or not links
            or any(p.steps == (f"make {target}",) for p in found)
        ):
            continue
        line = expanded[: match.start()].count("\n") + 1
        goal = f"{about} The Makefile knows how to build the program `{target}`, which is not there yet."
        block = Block(name, line, (), goal, "make", (match[0] + (recipe[0] if recipe else "")).strip(), goal)
        found.append(Plan("shell", block, (f"make {target}",)))
    return found[:MAX_TARGETS]


def _about(tree: Tree, blocks: list[Block]) -> str:
    """What the repository is, in the words of the first document."""
    for block in blocks:
        if block.opening:
            return " ".join(sentences_of(block.opening)[:2])
    for document in document_names(tree)[:1]:
        for _, _, paragraph in paragraphs_of(tree.text(document)):
            if found := " ".join(sentences_of(paragraph)[:2]):
                return found
    return ""
