"""Documented snippets in the repository's own language, turned into programs: what the snippet does to one literal, the
program does to any file.

Only text is made here: sources, their example input, and texts to try them on. Running is in program_tasks.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipeline.generators.documents import Block, Tree
from pipeline.generators.plans import Plan

MAX_INPUT = 1500
MAX_EARLIER_BLOCKS = 4
BLOCK_LANGUAGES = {
    "php": {"php"},
    "javascript": {"js", "javascript", "node"},
}
COMPLETE = {
    "go": ((r"^package main$", r"^func main\(\)"), "program{number}/main.go", "go run"),
    "python": ((r"^import |^from ", r"^print\("), "program{number}.py", "python3"),
}
LITERAL = {
    "php": re.compile(
        r"<<<'?(?P<mark>\w+)'?\n(?P<here>.*?)\n\s*(?P=mark)\b|'(?P<single>(?:[^'\\]|\\.)*)'"
        r"|\"(?P<double>(?:[^\"\\$]|\\.)*)\"",
        re.DOTALL,
    ),
    "javascript": re.compile(
        r"'(?P<single>(?:[^'\\\n]|\\.)*)'|\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|`(?P<here>(?:[^`\\$]|\\.)*)`", re.DOTALL
    ),
}
READING = {
    "php": "file_get_contents($argv[1])",
    "javascript": 'require("fs").readFileSync(process.argv[2], "utf8")',
}
PRINTS = {
    "php": re.compile(r"\b(?:echo|print|var_dump|printf|print_r)\b"),
    "javascript": re.compile(r"\bconsole\.log\b"),
}
STARTS = {"php": "php", "javascript": "node"}
SUFFIX = {"php": ".php", "javascript": ".js"}


@dataclass(frozen=True)
class Snippet:
    """A program made from a documented block."""

    block: Block
    language: str
    source: str
    """Complete program; reads the file that its first argument names."""
    example: str
    """The text that the document itself uses as input."""
    loading: str
    """How the library gets into the program, in code; empty when the snippet shows it."""


def snippets(blocks: list[Block], tree: Tree, language: str) -> list[Snippet]:
    """Programs for all blocks that can be generalised, in document order."""
    if language not in BLOCK_LANGUAGES:
        return []
    own = [b for b in blocks if b.language in BLOCK_LANGUAGES[language]]
    found: list[Snippet] = []
    for index, block in enumerate(own):
        body = _completed(own, index, language)
        literal = _data_literal(block, body, language)
        if literal is None:
            continue
        span, example = literal
        source = body[: span[0]] + READING[language] + body[span[1] :]
        printing = _printing(source, language)
        if not printing or re.search(r"\.\.\.(?!\$)|…|<\?=|\bYOUR_|https?://(?!\S*['\"])", source):
            continue
        loading = _loading(tree, source, language)
        if loading is None:
            continue
        found.append(Snippet(block, language, _assembled(printing, loading, language), example, loading))
    return found


def complete_programs(blocks: list[Block], language: str) -> list[Plan]:
    """Programs that stand complete in a document and need no input, to be run as they are."""
    if language not in COMPLETE:
        return []
    marks, name, run = COMPLETE[language]
    found = []
    for number, block in enumerate(b for b in blocks if b.language == language):
        if all(re.search(m, block.text, re.MULTILINE) for m in marks) and not re.search(
            r"\.\.\.$|k8s\.io", block.text, re.MULTILINE
        ):
            path = name.format(number=number + 1)
            found.append(Plan("program", block, (f"{run} {path}",), files=((path, block.text + "\n"),)))
    return found


def _completed(own: list[Block], index: int, language: str) -> str:
    """The block with what it needs from the blocks before it in the same document."""
    block = own[index]
    text = _stripped(block.text, language)
    earlier = [b for b in own[:index] if b.document == block.document]
    if language == "php":
        needed = _undefined(text)
        parts = [text]
        for other in reversed(earlier[-MAX_EARLIER_BLOCKS:]):
            if not needed:
                break
            body = _stripped(other.text, language)
            if needed & set(re.findall(r"\$(\w+)\s*=", body)):
                parts.insert(0, body)
                needed = _undefined("\n".join(parts))
        return _use_once("\n".join(parts))
    requires = [
        line
        for b in earlier
        for line in b.text.split("\n")
        if re.match(r"(?:const|var|let) \w+ = require\([^)]*\);?$", line)
    ]
    names = set(re.findall(r"(?:const|var|let) (\w+) =", text))
    unique = [
        line
        for line in dict.fromkeys(requires)
        if line.split()[1] not in names and re.search(rf"\b{line.split()[1]}\b", text)
    ]
    return "\n".join([*unique, text])


def _stripped(text: str, language: str) -> str:
    return re.sub(r"^\s*<\?php\s*\n|\n\?>\s*$", "", text) if language == "php" else text


def _undefined(text: str) -> set[str]:
    code = re.sub(r"'(?:[^'\\]|\\.)*'|<<<'?(\w+)'?\n.*?\n\s*\1\b", "''", text, flags=re.DOTALL)
    used = set(re.findall(r"\$(\w+)", code)) - {"this", "argv"}
    given = set(re.findall(r"\$(\w+)\s*=(?!=)", code)) | set(
        re.findall(r"(?:as|=>|catch \(\S+|[(,]\s*(?:[\w\\?]+\s+)?)\s*\$(\w+)\b(?=[^;]*\)\s*(?::|\{))", code)
    )
    return used - given


def _use_once(text: str) -> str:
    lines, seen = [], set()
    for line in text.split("\n"):
        if re.match(r"use [\w\\{}, ]+;$", line):
            if line in seen:
                continue
            seen.add(line)
        lines.append(line)
    return "\n".join([*sorted(seen), "", *(x for x in lines if x not in seen)])


def _data_literal(block: Block, body: str, language: str) -> tuple[tuple[int, int], str] | None:
    """(place, value) of the literal that is most likely the data: the longest one that is no name, key or option."""
    best: tuple[int, tuple[int, int], str] | None = None
    for match in LITERAL[language].finditer(_blanked_comments(body)):
        value = _value(match, language)
        around = (body[max(0, match.start() - 24) : match.start()], body[match.end() : match.end() + 6])
        if re.search(r"(?:require|include|import|from|use)\S*[ (]*$|\[\s*$|=>\s*$|case\s*$", around[0]) or re.match(
            r"\s*(?:=>|\])", around[1]
        ):
            continue
        if re.search(r"(?:echo|print|return|\.|(?:throw new )?\w*Exception\(|console\.\w+\()\s*$", around[0]):
            continue
        if re.match(r"\s*:", around[1]) or re.search(r"\w\s*:\s*$", around[0]):
            continue
        if (
            len(value) < 5
            or not re.search(r"[\s<#*{(;]", value)
            or value.strip() not in block.text.replace("\\'", "'").replace("\\n", "\n") + value
        ):
            continue
        if best is None or len(value) > best[0]:
            best = (len(value), match.span(), value)
    return None if best is None or len(best[2]) > MAX_INPUT else (best[1], best[2])


def _blanked_comments(body: str) -> str:
    """Comments as blanks of the same length, so that apostrophes in them open no literal."""
    pattern = re.compile(
        r"<<<'?(\w+)'?\n.*?\n\s*\1\b|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|//[^\n]*|(?<![\w$])#[^\n\[]*"
        r"|/\*.*?\*/",
        re.DOTALL,
    )
    return pattern.sub(lambda m: " " * len(m[0]) if m[0].startswith(("/", "#")) else m[0], body)


def _value(match: re.Match[str], language: str) -> str:
    if (here := match["here"]) is not None:
        return here
    if (single := match["single"]) is not None:
        return re.sub(r"\\(['\\])", r"\1", single) if language == "php" else _unescape(single)
    return _unescape(match["double"])


def _unescape(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda m: plain.get(m[1], m[1]), text, flags=re.DOTALL)


def _printing(source: str, language: str) -> str:
    """The source, made to print its last value when it prints nothing."""
    if PRINTS[language].search(source):
        return source
    names = re.findall(
        r"^\s*\$(\w+)\s*=(?!=)" if language == "php" else r"^(?:var|let|const) (\w+) =", source, re.MULTILINE
    )
    if not names:
        return ""
    return source + (f'\necho ${names[-1]}, "\\n";' if language == "php" else f"\nconsole.log({names[-1]});")


def _loading(tree: Tree, source: str, language: str) -> str | None:
    """Code that makes the library known; empty when the source does it, None when nobody knows how."""
    if language == "php":
        if re.search(r"autoload\.php|require(?:_once)? ", source):
            return ""
        name = php_autoload(tree)
        return f"require '{name}';" if name else None
    if re.search(r"\brequire\((?!\"fs\"\))", source):
        return ""
    package = package_name(tree)
    used = next(
        (
            w
            for w in re.findall(r"\b([A-Za-z_]\w*)\.\w+\(", source)
            if w.lower() == re.sub(r"\W|js$", "", package.lower())
        ),
        None,
    )
    used = used or next(
        (w for w in re.findall(r"\b([A-Z]\w*)\.\w+\(", source) if w.lower() == re.sub(r"\W", "", package.lower())), None
    )
    return f'const {used} = require("{package}");' if used else None


def _assembled(source: str, loading: str, language: str) -> str:
    head = "<?php\n" if language == "php" else ""
    return head + (loading + "\n" if loading else "") + source.strip("\n") + "\n"


def php_autoload(tree: Tree) -> str | None:
    """Name on the include path of the loader for the repository's main namespace, by its composer.json."""
    if "composer.json" not in tree.sizes:
        return None
    try:
        loading: Mapping[str, Mapping[str, object]] = json.loads(tree.text("composer.json")).get("autoload", {})
    except (ValueError, RecursionError, AttributeError):
        return None
    names = [name for kind in ("psr-4", "psr-0") for name in loading.get(kind, {})]
    return names[0].rstrip("\\").replace("\\", "/") + "/autoload.php" if names else None


def package_name(tree: Tree) -> str:
    """Name in package.json, empty when there is none."""
    if "package.json" not in tree.sizes:
        return ""
    try:
        return str(json.loads(tree.text("package.json")).get("name", ""))
    except (ValueError, RecursionError, AttributeError):
        return ""


def inputs_for(snippet: Snippet, others: Iterable[Snippet], blocks: Iterable[Block], tree: Tree) -> list[str]:
    """Texts to try a program on: its own, those of its neighbours, data that documents show, small shipped files."""
    kind = _kind_of(snippet.example)
    alike = [s for s in others if _kind_of(s.example) == kind]
    near = [s.example for s in alike if s.block.document == snippet.block.document]
    far = [s.example for s in alike if s.block.document != snippet.block.document]
    shown = [b.text for b in blocks if b.language in kind[0] and 20 < len(b.text) <= MAX_INPUT]
    if "<?php" in snippet.example:
        shown = [
            t if t.lstrip().startswith("<?php") else f"<?php\n\n{t}" for t in shown if "->" not in t.split("\n")[0]
        ]
    shown.sort(key=len)
    shipped = _shipped_texts(tree, kind[1])
    pool = [snippet.example, *near, *shown[-4:], *shipped, *far]
    return list(dict.fromkeys(t for t in pool if t.strip() and len(t) <= MAX_INPUT))[:8]


def _kind_of(text: str) -> tuple[set[str], tuple[str, ...]]:
    """(languages of blocks, suffixes of files) that hold the same sort of data."""
    if text.lstrip().startswith("<?php"):
        return {"php"}, (".php",)
    if "{{" in text:
        return {"mustache", "handlebars"}, (".mustache", ".hbs")
    if re.search(r"function|=>|console\.|var |;\s*$", text):
        return {"js", "javascript"}, ()
    return {"markdown", "md"}, (".md",)


def _shipped_texts(tree: Tree, suffixes: tuple[str, ...]) -> list[str]:
    names = [
        n
        for n, size in tree.sizes.items()
        if PurePosixPath(n).suffix.lower() in suffixes
        and 60 <= size <= MAX_INPUT
        and re.search(r"(?:^|/)(?:tests?|examples?|data|fixtures?|samples?)/", n)
    ]
    spread = sorted(names, key=lambda n: (-tree.sizes[n], n))[:: max(1, len(names) // 5)][:5]
    tree.load(set(spread))
    return [tree.text(n) for n in spread]
