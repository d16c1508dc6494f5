"""Turns documented shell commands into plans: what to put in place, what to run, what the document says comes out.

A plan is a guess made from text; documented.py runs it and drops it when the guess was wrong. Programs in the
repository's own language become plans in programs.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from pipeline.generators.commands import (
    SHELL_LANGUAGES,
    Command,
    input_files,
    is_stateful,
    outputs_of,
    parse_block,
    stages,
    unrunnable,
    without_sudo,
)
from pipeline.generators.documents import Block

MAX_FILE_LINES = 60
DATA_SUFFIXES = {
    ".csv", ".tsv", ".json", ".nl", ".jsonl", ".txt", ".xml", ".html", ".js", ".md", ".yml", ".yaml", ".toml",
    ".ini", ".sh", ".xlsx", ".xls", ".dbf", ".json5", ".mustache", ".sql", ".log", ".css", ".php", ".py",
    ".gron",
}  # fmt: skip
FILE_NAME = r"[\w-]+(?:/[\w.-]+)*\.[A-Za-z][\w]{0,8}"
NAMED_IN_COMMENT = re.compile(
    rf"^\s*(?://|#|/\*|<!--|;|--)\s*(?:file:\s*|filename:\s*)?({FILE_NAME})\s*(?:\*/|-->)?\s*$", re.IGNORECASE
)
NAMED_IN_PROSE = re.compile(rf"`({FILE_NAME})`")
INTRODUCES = re.compile(
    r"(?i)\b(?:contain|looks? like|consider|given|called|named|following|consists? of|example (?:document|file))"
)


@dataclass(frozen=True)
class Plan:
    """One documented way to get a result."""

    kind: Literal["shell", "program", "sample"]
    block: Block
    steps: tuple[str, ...]
    """Commands; the last one gives the result."""
    shown: str | None = None
    """What the document says is printed."""
    shown_language: str = ""
    """Language that the document gives for what is printed."""
    comment: str = ""
    files: tuple[tuple[str, str], ...] = ()
    """Files (path relative to the working directory, text) whose content the document gives."""
    stand_ins: tuple[tuple[str, str], ...] = ()
    """(documented name, path in the repository) of inputs replaced by files that the repository ships."""
    missing: tuple[str, ...] = ()
    """Names in the commands that are nowhere: outputs, or inputs that an earlier documented command makes."""
    before: tuple[Plan, ...] = ()
    """Plans whose results this one works on."""

    @property
    def text(self) -> str:
        return "\n".join(self.steps)


@dataclass(frozen=True)
class Refusal:
    """A documented place that cannot become a task, and why."""

    block: Block
    excerpt: str
    failure_class: str
    reason: str


def shell_plans(blocks: list[Block]) -> tuple[list[Plan], list[Refusal]]:
    """Plans of all shell blocks, in document order, and what the text alone rules out."""
    plans: list[Plan] = []
    refused: list[Refusal] = []
    aliases: dict[str, str] = {}
    for index, block in enumerate(blocks):
        commands = parse_block(block)
        if not commands:
            continue
        commands = _learn_aliases(commands, aliases)
        commands = [replace(c, text=without_sudo(_with_alias(c.text, aliases))) for c in commands]
        shown = _output_block(blocks, index)
        if len(commands) == 1 and shown is not None and commands[0].output is None:
            commands = [replace(commands[0], output=shown.text)]
        for group in _groups(commands):
            bad = next((found for c in group if (found := unrunnable(c.text))), None)
            if bad:
                refused.append(Refusal(block, group[-1].text, *bad))
            else:
                steps = tuple(c.text for c in group)
                language = shown.language if shown is not None else ""
                plans.append(Plan("shell", block, steps, group[-1].output, language, group[-1].comment))
    return plans, refused


def _learn_aliases(commands: list[Command], aliases: dict[str, str]) -> list[Command]:
    rest = []
    for command in commands:
        if match := re.match(r"alias\s+([\w-]+)=(['\"])(.*)\2\s*$", command.text):
            aliases[match[1]] = match[3]
        else:
            rest.append(command)
    return rest


def _with_alias(text: str, aliases: Mapping[str, str]) -> str:
    match = re.match(r"([\w-]+)(?=\s|$)", text)
    return aliases[match[1]] + text[match.end() :] if match and match[1] in aliases else text


def _output_block(blocks: list[Block], index: int) -> Block | None:
    """The next block, when it is plainly the output of this one."""
    if index + 1 >= len(blocks):
        return None
    block, other = blocks[index], blocks[index + 1]
    if other.document != block.document or other.headings != block.headings or other.line - block.line > 80:
        return None
    lead = other.prose.strip().lower()
    if other.language == "output" or (not lead and other.language not in SHELL_LANGUAGES | {""}):
        return other
    if re.fullmatch(
        r"(?:(?:the )?(?:output|outputs?|result|results in|returns|produces|prints|will (?:output"
        r"|print|return))\b.{0,40}:?)",
        lead,
    ):
        return other
    return None


def _groups(commands: list[Command]) -> list[tuple[Command, ...]]:
    """Commands that belong together: a block with state is one script, else each result comes with what it needs."""
    if any(is_stateful(c.text) for c in commands):
        return [tuple(commands)]
    groups: list[tuple[Command, ...]] = []
    for index, command in enumerate(commands):
        names = set(input_files(command.text)) | outputs_of(command.text)
        needed: list[Command] = []
        for earlier in reversed(commands[:index]):
            if names & outputs_of(earlier.text):
                needed.insert(0, earlier)
                names |= set(input_files(earlier.text))
        if not (command.text.startswith(("mkdir ", "rm ", "touch ")) and index + 1 < len(commands)):
            groups.append((*needed, command))
    return [g for i, g in enumerate(groups) if not any(set(g) < set(later) for later in groups[i + 1 :])]


def documented_files(blocks: Iterable[Block]) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """(document, file name) -> [(line, text)] of files whose content a document shows."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def add(block: Block, name: str, text: str) -> None:
        if text.count("\n") < MAX_FILE_LINES and "..." not in text and len(text) > 3:
            found.setdefault((block.document, name), []).append((block.line, text.rstrip("\n") + "\n"))

    for block in blocks:
        first = block.text.split("\n", 1)[0]
        if (match := NAMED_IN_COMMENT.match(first)) and "\n" in block.text and block.language not in SHELL_LANGUAGES:
            add(block, match[1], block.text)
            continue
        for command in parse_block(block):
            words = [s.words for s in stages(command.text)]
            shows = len(words) == 1 and words[0][:1] == ("cat",) and len(words[0]) == 2
            # Used again in the same block: then it is an input, not the result of something before.
            if command.output and shows and block.text.count(words[0][1]) > 1:
                add(block, words[0][1], command.output)
        names = NAMED_IN_PROSE.findall(block.prose.split("\n")[-1])
        lead = block.prose.split("\n")[-1]
        if (
            len(set(names)) == 1
            and block.language not in SHELL_LANGUAGES | {"output"}
            and INTRODUCES.search(lead)
            and lead.endswith(":")
        ):
            add(block, names[0], block.text)
    return found


def java_programs(blocks: Iterable[Block], package: str) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """`documented_files` for Java: a shown class with `main` is a file of its name, with the imports it leaves out."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for block in blocks:
        name = re.search(r"^(?:public )?class (\w+)", block.text, re.MULTILINE)
        if block.language == "java" and name and " main(" in block.text:
            head = "" if "import " in block.text or not package else f"import {package}.*;\nimport java.util.*;\n\n"
            found.setdefault((block.document, f"{name[1]}.java"), []).append((block.line, f"{head}{block.text}\n"))
    return found


def with_compiling(plan: Plan, documented: Mapping[tuple[str, str], list[tuple[int, str]]]) -> Plan:
    """For `java Name …` where the document shows the class: the file, and compiling it first."""
    match = re.match(r"java (\w+)(?=\s|$)", plan.steps[-1])
    shown = documented.get((plan.block.document, f"{match[1]}.java")) if match else None
    if match is None or not shown:
        return plan
    name = f"{match[1]}.java"
    return replace(
        plan,
        steps=(*plan.steps[:-1], f"javac {name}", plan.steps[-1]),
        files=((name, _nearest(shown, plan.block.line)),),
    )


def synopsis_plans(refused: Iterable[Refusal], blocks: list[Block], own: set[str]) -> list[Plan]:
    """`tool [options] <file>` applied to the data that the same document shows."""
    found = []
    for refusal in refused:
        match = re.fullmatch(r"([\w-]+) \[\w+\] <(?:input-?)?file>", refusal.excerpt.strip())
        if match is None or match[1] not in own:
            continue
        data = [
            b
            for b in blocks
            if b.document == refusal.block.document and b.language not in SHELL_LANGUAGES | {"", "html"}
        ]
        data = sorted(
            (b for b in data if "require(" not in b.text and "import " not in b.text), key=lambda b: -len(b.text)
        )
        for block in data[:1]:
            name = f"input.{match[1] if len(match[1]) < 6 else block.language}"
            found.append(Plan("shell", refusal.block, (f"{match[1]} {name}",), files=((name, block.text + "\n"),)))
    return found


def resolve(plan: Plan, tree_names: set[str], documented: Mapping[tuple[str, str], list[tuple[int, str]]]) -> Plan:
    """Find the files that the commands name: shipped, shown in the document, shipped elsewhere; the rest is missing."""
    steps = plan.steps
    files: dict[str, str] = dict(plan.files)
    stand_ins: list[tuple[str, str]] = []
    missing: list[str] = []
    written: set[str] = set()
    for position, step in enumerate(plan.steps):
        for name in input_files(step):
            clean = name.removeprefix("./")
            if (
                name.startswith(("~", ".."))
                or (name.startswith("/") and not name.startswith("/tmp/"))
                or clean in written
                or clean in files
                or clean.rstrip("/") in tree_names
            ):
                continue
            if any(existing.startswith(clean.rstrip("/") + "/") for existing in tree_names):
                continue
            shown = documented.get((plan.block.document, clean))
            if shown and name not in outputs_of(step):
                files[clean] = _nearest(shown, plan.block.line)
            elif other := _elsewhere(clean, tree_names):
                stand_ins.append((name, other))
                steps = tuple(_rename(s, name, other) for s in steps)
            else:
                missing.append(clean)
        written |= {w.removeprefix("./") for w in outputs_of(steps[position])}
    return replace(
        plan, steps=steps, files=tuple(files.items()), stand_ins=tuple(stand_ins), missing=tuple(dict.fromkeys(missing))
    )


def _nearest(shown: list[tuple[int, str]], line: int) -> str:
    before = [text for at, text in shown if at <= line]
    return before[-1] if before else shown[0][1]


def _elsewhere(name: str, tree_names: set[str]) -> str | None:
    """The shipped file of the same name, when there is exactly one that is not a test double of another."""
    base = PurePosixPath(name).name
    matches = sorted((n for n in tree_names if PurePosixPath(n).name == base), key=lambda n: (n.count("/"), n))
    return matches[0] if matches and PurePosixPath(name).suffix.lower() in DATA_SUFFIXES else None


def _rename(step: str, old: str, new: str) -> str:
    return re.sub(rf"(?<![\w./-]){re.escape(old)}(?![\w/-]|\.\w)", lambda _: new, step)


def with_stand_ins(plan: Plan, sizes: Mapping[str, int], seed: int) -> Plan | None:
    """Replace missing inputs by shipped files of the same kind; None when there is nothing to replace by."""
    written = {w for step in plan.steps for w in outputs_of(step)}
    steps, stand_ins = plan.steps, list(plan.stand_ins)
    used: set[str] = set()
    for name in plan.missing:
        suffix = PurePosixPath(name).suffix.lower() or ".txt"
        if suffix not in DATA_SUFFIXES or name in written:
            continue
        pool = [p for p in shipped(sizes, suffix) if p not in used]
        if not pool:
            return None
        chosen = pool[seed % len(pool)]
        used.add(chosen)
        stand_ins.append((name, chosen))
        steps = tuple(_rename(s, name, chosen) for s in steps)
    if steps == plan.steps:
        return None
    names = {old for old, _ in stand_ins}
    return replace(
        plan, steps=steps, stand_ins=tuple(stand_ins), missing=tuple(m for m in plan.missing if m not in names)
    )


def with_other_input(plan: Plan, sizes: Mapping[str, int], turn: int) -> Plan | None:
    """The plan on another shipped file of the same kind; None when it has no shipped input or there is no other."""
    named = [name for step in plan.steps for name in input_files(step) if name.removeprefix("./") in sizes]
    stems = Counter(str(PurePosixPath(p).with_suffix("")) for p in sizes)
    for name in named:
        pool = [p for p in shipped(sizes, PurePosixPath(name).suffix.lower()) if p != name.removeprefix("./")]
        # A test's input and its expected result differ in the suffix alone.
        pool.sort(key=lambda p: stems[str(PurePosixPath(p).with_suffix(""))] > 1)
        if PurePosixPath(name).suffix.lower() in DATA_SUFFIXES and turn < len(pool):
            known = {new: old for old, new in plan.stand_ins}
            stand_ins = [(old, new) for old, new in plan.stand_ins if new != name]
            return replace(
                plan,
                steps=tuple(_rename(step, name, pool[turn]) for step in plan.steps),
                stand_ins=(*stand_ins, (known.get(name, name), pool[turn])),
                shown=None,
            )
    return None


def fed(plan: Plan, sizes: Mapping[str, int]) -> Plan | None:
    """A plan whose first program waits for standard input, with a shipped text for it; None when it has an input."""
    first = stages(plan.steps[0])[0]
    if (
        len(plan.steps) > 1
        or first.reads
        or input_files(plan.text)
        or any(not w.startswith("-") and len(w) > 24 for w in first.words)
    ):
        return None
    pool = shipped(sizes, ".txt")
    if not pool or "\n" in plan.text:
        return None
    head, bar, tail = plan.text.partition("|")
    step = f"{head.rstrip()} < {pool[0]}" + (f" |{tail}" if bar else "")
    return replace(plan, steps=(step,), stand_ins=(*plan.stand_ins, ("standard input", pool[0])))


def labelled_variants(plan: Plan, blocks: list[Block]) -> list[Plan]:
    """One plan for each worked example of the document whose labelled blocks are the missing inputs.

    A template engine shows `View:` and `Template:` many times, and its command once with `view.json template.html`.
    """
    words = {m: {w.lower() for w in re.findall(r"[A-Z]?[a-z]+", PurePosixPath(m).stem)} for m in plan.missing}
    wanted = {m: w for m, w in words.items() if m not in {o for s in plan.steps for o in outputs_of(s)}}
    found: list[Plan] = []
    group: list[tuple[str, Block]] = []
    for block in [b for b in blocks if b.document == plan.block.document]:
        label = block.prose.split("\n")[-1].strip().rstrip(":").lower()
        if not label.isalpha():
            group = []
            continue
        if group and (block.headings != group[0][1].headings or label in {g for g, _ in group}):
            group = []
        group.append((label, block))
        texts = {m: next((b.text for g, b in group if g in w), None) for m, w in wanted.items()}
        if label in {"output", "result"} and wanted and all(texts.values()):
            head = group[0][1]
            prose = "\n".join(head.prose.split("\n")[:-1])
            block = replace(head, prose=prose, section_prose=head.section_prose)
            files = tuple((name, text + "\n") for name, text in texts.items() if text)
            found.append(replace(plan, block=block, files=files, missing=(), shown=group[-1][1].text))
    return found


def shipped(sizes: Mapping[str, int], suffix: str) -> list[str]:
    """Files of the repository that serve as inputs of this kind: of moderate size, example and test data first."""

    def order(name: str) -> tuple[int, int, str]:
        data = re.search(r"(?:^|/)(?:examples?|samples?|testdata|data|fixtures?|tests?)/", name)
        return (0 if data else 1, name.count("/"), name)

    names = [n for n, size in sizes.items() if n.lower().endswith(suffix) and 30 <= size <= 200_000]
    names = [
        n
        for n in names
        if not re.search(
            r"(?:^|/)(?:\.pc|\.git|debian|node_modules|\.github)/|invalid|bad|broken|empty|large|expected|result|output|/res\d",
            n,
        )
    ]
    return sorted(names, key=order)[:12]
