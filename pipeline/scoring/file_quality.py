"""How complete one file is, and how likely it can be run or read by its tool, each from 0 to 1, for any text.

What is wrong with a file are its *flaws*, each from 0 (nothing) to 1. Completeness and executability are
`exp(-sum of weight * flaw)` over their own flaws, and the quality is their product, so that one more flaw never raises
it. The weights are judgement, held against files that were harmed on purpose (corruptions.py). Nothing is run.
"""

from __future__ import annotations

import ast
import json
import math
import re
import tomllib
import xml.parsers.expat
from pathlib import PurePosixPath
from typing import NamedTuple

import yaml  # type: ignore[import-untyped]

from pipeline.scoring import known_words
from pipeline.scoring.blanking import LEXED, blanked, mismatched
from pipeline.scoring.markup import unclosed_in_html, unclosed_in_makefile, unclosed_in_markdown
from pipeline.scoring.names import IMPORTS, names_of
from sandbox.building.dockerfile_text import instructions

VERSION = "file_quality@1"

_BY_EXTENSION = {
    ".py": "python", ".pyw": "python", ".go": "go", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".hh": "cpp", ".java": "java", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".php": "php", ".html": "html", ".htm": "html", ".css": "css", ".sh": "shell", ".bash": "shell", ".json": "json",
    ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".xml": "xml", ".md": "markdown", ".markdown": "markdown",
    ".cmake": "cmake", ".mk": "makefile",
}  # fmt: skip
_BY_NAME = {"makefile": "makefile", "gnumakefile": "makefile", "cmakelists.txt": "cmake", "dockerfile": "dockerfile"}
_SHEBANG = re.compile(r"#![^\n]*\b(?:(python)[\d.]*|(?:ba|da|k|z)?(sh)|(node)|(php))\b")

COMPLETENESS = {"cut": 1.2, "empty": 3.0, "hollow": 1.2, "placeholders": 1.2}
EXECUTABILITY = {"unparsed": 1.5, "unbalanced": 1.5, "unresolved": 1.2, "isolated": 0.1, "unstartable": 0.5}

_PLACEHOLDER = re.compile(
    r"\b(?:TODO|FIXME|XXX|TBD|CHANGEME)\b|not[ _]?(?:yet[ _])?implemented|\byour[ _](?:code|\w+[ _]?key)\b"
    r"|\bplaceholder\b(?![\"']?\s*[=:])(?<!::placeholder)|\bimplement (?:me|this|here)\b|\blorem ipsum\b"
    r"|\b(?:rest|remainder) of (?:the )?(?:code|file|function|implementation)\b|<insert\b|\bfill (?:me|this) in\b"
    r"|^[ \t]*(?:(?:\#|//|--|/\*|<!--)[ \t]*)?(?:\.\.\.|…)[ \t]*(?:\*/|-->)?[ \t]*$|^<{7} |^>{7} ",
    re.IGNORECASE | re.MULTILINE,
)
_BODY = re.compile(r"\)[^;{}()=\"']{0,80}?(?:=>\s*)?\{")
_EMPTY_BODY = re.compile(r"\)[^;{}()=\"']{0,80}?(?:=>\s*)?\{\s*\}")
_ENDS = {
    "c": "};/\\", "cpp": "};/\\", "java": "}/", "go": "})\"`/", "javascript": "});,*/'\"`]", "php": "};>?",
    "css": "}/;",
    "html": ">}%", "xml": ">", "json": "}]\"", "markdown": ".!?:)`>|-*_=~]\"'", "cmake": ")",
}  # fmt: skip
"""Characters that the last line of a finished file ends with, where the language says so."""
_SYNTAX_FAULTS = (ValueError, SyntaxError, RecursionError, MemoryError, yaml.YAMLError, xml.parsers.expat.ExpatError)
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileQuality(NamedTuple):
    """The judgement of one file."""

    language: str
    completeness: float
    executability: float
    flaws: dict[str, float]

    @property
    def quality(self) -> float:
        return self.completeness * self.executability


def language_of(name: str, text: str = "") -> str:
    """`text` for everything unknown."""
    path = PurePosixPath(name)
    base = path.name.lower()
    if base in _BY_NAME or base.startswith("dockerfile.") or base.endswith(".dockerfile"):
        return _BY_NAME.get(base, "dockerfile")
    if known := _BY_EXTENSION.get(path.suffix.lower()):
        return known
    if match := _SHEBANG.match(text):
        return "python" if match[1] else "shell" if match[2] else "javascript" if match[3] else "php"
    return "text"


def judge(name: str, text: str) -> FileQuality:
    """The quality of a whole file: a text that a reader cut would look like one that is cut."""
    language = language_of(name, text)
    flaws = flaws_of(text, language)
    parts = [
        math.exp(-sum(weights[flaw] * flaws[flaw] for flaw in weights)) for weights in (COMPLETENESS, EXECUTABILITY)
    ]
    return FileQuality(language, parts[0], parts[1], flaws)


def flaws_of(text: str, language: str) -> dict[str, float]:
    """Each from 0 to 1, all of COMPLETENESS and EXECUTABILITY."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    code, open_literals = blanked(text, language) if language in LEXED else (text, 0)
    tree, unparsed = _parsed(text, language)
    lost = mismatched(code, language) if language in LEXED and tree is None else 0
    lost += _unclosed(text, language)
    names = names_of(text, code, language, tree)
    lines = sum(1 for line in text.splitlines() if line.strip())
    # Code that is very short may need nothing, and of HTML only whole pages do.
    needy = language in IMPORTS and lines >= 5 and (language != "html" or "<head" in text.lower())
    return {
        "cut": _cut(text, code, language, open_literals),
        "empty": float(not (text if language == "php" else code).strip()),
        "hollow": _hollow(code, language, tree),
        # One of them says little in a long file.
        "placeholders": _saturating(len(_PLACEHOLDER.findall(text)), 2.0 + lines / 50),
        "unparsed": unparsed,
        "unbalanced": _saturating(lost, 3.0),
        "unresolved": names.unresolved_share,
        "isolated": float(needy and names.n_imports == 0),
        "unstartable": float(language == "shell" and not text.startswith("#!")),
    }


def _saturating(count: int, half: float) -> float:
    """0 for none, one half for `half` of them, rising for ever."""
    return count / (count + half)


def _cut(text: str, code: str, language: str, open_literals: int) -> float:
    """Whether the end is missing: no line end, an unlikely last character, a literal or comment that goes on."""
    ends = _ENDS.get(language)
    # A comment or a literal may come last.
    last = {text.rstrip()[-1:], code.rstrip()[-1:]} - {""}
    directive = language in ("c", "cpp") and text.rstrip().rpartition("\n")[2].lstrip().startswith("#")
    unlikely = ends is not None and bool(last) and last.isdisjoint(ends) and not directive
    goes_on = text.rstrip().endswith("\\") or open_literals > 0
    return 0.4 * (not text.endswith("\n")) + 0.3 * unlikely + 0.3 * goes_on


def _parsed(text: str, language: str) -> tuple[ast.Module | None, float]:
    """The tree of Python that parses, and how much of a file does not: 0.3 and up as soon as there is an error."""
    try:
        match language:
            case "python":
                return ast.parse(text), 0.0
            case "json":
                json.loads(text)
            case "toml":
                tomllib.loads(text)
            case "yaml":
                for _ in yaml.parse(text, Loader=_YAML):
                    pass
            case "xml":
                xml.parsers.expat.ParserCreate().Parse(text.lstrip(), True)
            case "dockerfile":
                return None, _unknown_instructions(text)
    except (
        ValueError,
        SyntaxError,
        RecursionError,
        MemoryError,
        yaml.YAMLError,
        xml.parsers.expat.ExpatError,
    ) as error:
        line = _line_of(error)
        whole = max(1, text.count("\n"))
        return None, 0.3 + 0.7 * (1.0 - min(1.0, line / whole) if line else 0.0)
    return None, 0.0


def _line_of(error: Exception) -> int:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return int(error.problem_mark.line)
    return int(getattr(error, "lineno", 0) or 0)


def _unknown_instructions(text: str) -> float:
    steps = instructions(text)
    words = [step.word for step in steps]
    unknown = sum(word not in known_words.INSTRUCTIONS for word in words)
    # An instruction without anything behind it is one that was cut.
    bare = sum(len(step.text.split(None, 1)) < 2 for step in steps)
    wrong = unknown + bare + ("FROM" not in words)
    return 0.3 + 0.7 * wrong / (wrong + len(words)) if wrong else 0.0


def _unclosed(text: str, language: str) -> int:
    match language:
        case "html":
            return unclosed_in_html(text)
        case "markdown":
            return unclosed_in_markdown(text)
        case "makefile":
            return unclosed_in_makefile(text)
        case _:
            return 0


def _hollow(code: str, language: str, tree: ast.Module | None) -> float:
    """Share of the functions that do nothing."""
    if language == "python":
        if tree is None:
            return 0.0
        functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        return sum(_does_nothing(one) for one in functions) / len(functions) if functions else 0.0
    if language not in ("c", "cpp", "java", "go", "javascript", "php"):
        return 0.0
    bodies = len(_BODY.findall(code))
    return len(_EMPTY_BODY.findall(code)) / bodies if bodies else 0.0


def _does_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for statement in function.body:
        idle = isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )
        if not idle and not (isinstance(statement, ast.Raise) and "NotImplemented" in ast.dump(statement)):
            return False
    return True
