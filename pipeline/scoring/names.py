"""Which names a file uses, and which of them it neither defines nor imports: what is missing before it can run.

By the parser for Python, by regular expressions for the others, so that a share of unresolved names is an estimate: it
is never 0 for JavaScript with globals of its own, and imports that do not say what they bring count as bringing all.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from typing import NamedTuple

from pipeline.scoring import known_words

IMPORTS: dict[str, re.Pattern[str]] = {
    "python": re.compile(
        r"^[ \t]*(?:from[ \t]+\S+[ \t]+import[ \t]*(?:\([^)]*\)|[^\n\\(]*(?:\\\n[^\n\\]*)*)|import[ \t]+[^\n]+)\n?",
        re.M,
    ),
    "c": re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n?", re.M),
    "java": re.compile(r"^[ \t]*import[ \t]+[^;\n]+;[^\n]*\n?", re.M),
    "go": re.compile(r"^import\s*(?:\([^)]*\)|(?:[\w.]+[ \t]+)?\"[^\"\n]*\")[^\n]*\n?", re.M),
    "javascript": re.compile(
        r"^[ \t]*import\b[^;'\"()]*['\"][^'\"\n]+['\"][^\n]*\n?|^[^\n]*=[ \t]*require\([ \t]*['\"`][^\n]*\n?", re.M
    ),
    "php": re.compile(
        r"^use[ \t]+(?!\()[^;]+;[^\n]*\n?|^[ \t]*(?:require|include)(?:_once)?\b[^;\n]*;[^\n]*\n?", re.M | re.I
    ),
    "html": re.compile(r"<script\b[^>]*\bsrc=[^>]*>\s*</script>|<link\b[^>]*\bstylesheet\b[^>]*>", re.I),
}
IMPORTS["cpp"] = IMPORTS["c"]
"""Statements that bring something in from elsewhere, by language."""

_KNOWN_PYTHON = frozenset(dir(builtins)) | {"__file__", "__path__", "__builtins__", "__class__", "__annotations__"}

_JAVASCRIPT_BINDS = re.compile(
    r"\b(?:const|let|var)\s*[{\[]([^}\]=]*)[}\]]|\(([^()]*)\)\s*(?:=>|\{)|[(=,:]\s*([\w$]+)\s*=>"
)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")


class Names(NamedTuple):
    """What a file needs by name."""

    n_used: int
    n_unresolved: int
    n_imports: int

    @property
    def unresolved_share(self) -> float:
        return self.n_unresolved / self.n_used if self.n_used else 0.0


def names_of(text: str, code: str, language: str, tree: ast.Module | None = None) -> Names:
    """`code` is the blanked text; `tree` is that of Python where it could be parsed."""
    imports = [match[0] for match in IMPORTS[language].finditer(text)] if language in IMPORTS else []
    match language:
        case "python":
            used, missing = _python_tree(tree) if tree is not None else _python_text(code, imports)
        case "java":
            used, missing = _java(code, imports)
        case "go":
            used, missing = _go(code, imports)
        case "javascript":
            used, missing = _javascript(code, imports)
        case "php":
            used, missing = _php(code, imports)
        case "c" | "cpp":
            used, missing = _c(code, bool(imports))
        case "html":
            used, missing = _html(text)
        case _:
            used, missing = set(), set()
    return Names(len(used), len(missing), len(imports))


_Found = tuple[set[str], set[str]]
"""Names that are used, and those of them that nothing defines."""


def _python_tree(tree: ast.Module) -> _Found:
    used: set[str] = set()
    bound: set[str] = set()
    opaque = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            if node.id == "__all__":
                bound.add("__all__")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            opaque |= node.name == "*"
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            bound.update(node.names)
    used |= _exported(tree)
    return used, set() if opaque else used - bound - _KNOWN_PYTHON


def _exported(tree: ast.Module) -> set[str]:
    """The names in `__all__`, which a module must have."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and "__all__" in (getattr(one, "id", None) for one in node.targets):
            for one in ast.walk(node.value):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    found.add(one.value)
    return found


def _python_text(code: str, imports: Iterable[str]) -> _Found:
    """For what does not parse: names before a dot, against whatever is assigned, looped over or a parameter."""
    used = set(re.findall(r"(?<![\w.)\]])([A-Za-z_]\w*)\.[A-Za-z_]", code))
    bound = set(re.findall(r"(?<![\w.])([A-Za-z_]\w*)[ \t]*(?:=(?!=)|,|\)|:|[ \t]in\b)", code))
    bound |= {word for statement in imports for word in _WORD.findall(statement)}
    return used, used - bound - _KNOWN_PYTHON


def _java(code: str, imports: list[str]) -> _Found:
    body = IMPORTS["java"].sub("", code)
    body = re.sub(r"^\s*package\b[^;]*;", "", body)
    used = set(re.findall(r"(?<![\w.])([A-Z]\w*[a-z]\w*|[A-Z])\b", body))
    defined = set(re.findall(r"\b(?:class|interface|enum|record|@interface)\s+(\w+)", body))
    defined |= {word for part in re.findall(r"<([^<>()]*)>", body) for word in re.findall(r"\b[A-Z]\b", part)}
    brought = {statement.rstrip().partition(";")[0].rpartition(".")[2].strip() for statement in imports}
    return used, set() if "*" in brought else used - defined - brought - known_words.JAVA


def _go(code: str, imports: list[str]) -> _Found:
    body = IMPORTS["go"].sub("", code)
    used = set(re.findall(r"(?<![\w.)\]])([a-z]\w*)\.[A-Z]\w*", body))
    bound = {
        word
        for part in re.findall(r"\b((?:\w+\s*,\s*){0,20}\w+)\s*:=", body)
        for word in part.replace(",", " ").split()
    }
    bound |= {word for part in re.findall(r"\bvar\s+((?:\w+\s*,\s*){0,20}\w+)", body) for word in _WORD.findall(part)}
    # Parameters, receivers, results: what stands in brackets or before a type.
    bound |= set(re.findall(r"[(,]\s*(\w+)(?:\s*,\s*\w+){0,8}\s+[*\[\].\w]", body))
    bound |= set(re.findall(r"[(,]\s*(\w+)\s*(?=,\s*\w+\s+[*\[\].\w])", body))
    bound |= set(re.findall(r"^[ \t]*(\w+)[ \t]+[*\[\]\w.]+[ \t]*(?:=|$)", body, re.M))
    for statement in imports:
        for alias, path in re.findall(r"(?:([\w.]+)[ \t]+)?\"([^\"\n]+)\"", statement.removeprefix("import")):
            bound |= {alias} if alias else _go_package(path)
    return used, used - bound


def _go_package(path: str) -> set[str]:
    """Names that the package of an import path may have."""
    parts = [part for part in path.split("/") if not re.fullmatch(r"v\d+", part)]
    last = re.sub(r"\.v\d+$", "", parts[-1]) if parts else ""
    return {last, last.removeprefix("go-"), last.removesuffix("-go"), last.removesuffix(".go"), last.replace("-", "")}


def _javascript(code: str, imports: list[str]) -> _Found:
    used = set(re.findall(r"(?<![\w.$])([A-Za-z_$][\w$]*)\s*(?:\(|\.[A-Za-z_$])", code))
    used |= set(re.findall(r"\b(?:new|extends)\s+([A-Za-z_$][\w$]*)", code))
    body = IMPORTS["javascript"].sub("", code)
    bound = set(re.findall(r"\b(?:function\s*\*?|class|const|let|var)\s+([A-Za-z_$][\w$]*)", body))
    for part in re.findall(
        r"\b(?:const|let|var)\s*[{\[]([^}\]=]*)[}\]]|\(([^()]*)\)\s*(?:=>|\{)|[(=,:]\s*([\w$]+)\s*=>", body
    ):
        bound |= set(_WORD.findall(" ".join(part)))
    bound |= set(re.findall(r"(?<![\w.$])([A-Za-z_$][\w$]*)\s*=(?![=>])", body))
    bound |= set(re.findall(r",\s*([A-Za-z_$][\w$]*)\s*(?=[,;=\n])", body))
    bound |= set(re.findall(r"^[ \t]*(?:async[ \t]+|static[ \t]+)*([A-Za-z_$][\w$]*)\s*\([^()]*\)\s*\{", body, re.M))
    bound |= {word for statement in imports for word in _WORD.findall(re.sub(r"'[^']*'|\"[^\"]*\"", " ", statement))}
    return used, used - bound - known_words.JAVASCRIPT


def _php(code: str, imports: list[str]) -> _Found:
    body = IMPORTS["php"].sub("", code)
    used = set(re.findall(r"\b(?:new|extends|implements|instanceof|catch\s*\()\s*([A-Z]\w*)", body))
    used |= set(re.findall(r"(?<![\w\\$>])([A-Z]\w*)(?:::|\s+\$\w)", body)) | set(re.findall(r"#\[(\w+)", body))
    defined = set(re.findall(r"\b(?:class|interface|trait|enum)\s+(\w+)", body))
    whole = any(re.match(r"\s*(?:require|include)", statement, re.I) for statement in imports)
    brought = {word for statement in imports for word in _WORD.findall(statement)}
    missing = {name for name in used - defined - brought if name.lower() not in known_words.PHP}
    return used, set() if whole else missing


def _c(code: str, includes: bool) -> _Found:
    """An include may bring anything; without any, what is called or a type must be defined here."""
    used = set(re.findall(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(", code)) | set(re.findall(r"\b\w+_t\b|\b[A-Z]\w*\b", code))
    used -= known_words.C
    if includes:
        return used, set()
    defined = set(re.findall(r"#[ \t]*define[ \t]+(\w+)|\b(?:struct|class|union|enum)\s+(\w+)", code))
    names = {name for pair in defined for name in pair if name}
    names |= set(re.findall(r"\b(\w+)\s*\([^;{}()]*\)\s*(?:const\s*)?\{", code)) | set(
        re.findall(r"\}\s*(\w+)\s*;", code)
    )
    names |= set(re.findall(r"\btypedef\b[^;{}]{0,300}?\b(\w{1,200})\s*;", code))
    return used, used - names


def _html(text: str) -> _Found:
    """A page with classes wants a style, one with handlers wants a script."""
    wants = {
        "style": re.search(r"\bclass\s*=", text, re.I) is not None,
        "script": re.search(r"\bon(?:click|load|submit|change|input)\s*=", text, re.I) is not None,
    }
    has = {
        "style": re.search(r"<style\b|\bstylesheet\b|@import|\{%|\{\{", text, re.I) is not None,
        "script": re.search(r"<script\b|\{%|\{\{", text, re.I) is not None,
    }
    used = {name for name, wanted in wants.items() if wanted}
    return used, {name for name in used if not has[name]}
