"""Files harmed on purpose: what a score of completeness and executability has to notice.

Each kind is something that happens to files of repositories: a transfer that stopped, a part that was taken out, text
of a generator in the place of code. The harm depends on the seed alone.
"""

from __future__ import annotations

import ast
import random
import re
from typing import Literal, get_args

from pipeline.scoring import known_words
from pipeline.scoring.blanking import LEXED, blanked
from pipeline.scoring.markup import RAW
from pipeline.scoring.names import IMPORTS

Kind = Literal["truncated", "imports_dropped", "placeholders", "brackets_lost", "bodies_emptied"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_COMMENT = {"python": "#", "shell": "#", "yaml": "#", "toml": "#", "makefile": "#", "dockerfile": "#", "cmake": "#"}
_COMMENT |= dict.fromkeys(("c", "cpp", "java", "go", "javascript", "php"), "//")
_PLACEHOLDERS = (
    "TODO: implement this",
    "FIXME",
    "... rest of the code ...",
    "your code here",
    "placeholder",
    "not implemented yet",
)
_HTML_TAG = re.compile(r"</?(\w+)[^<>]*>")
_BRACKET = re.compile(r"[()\[\]{}]")
_FUNCTION = re.compile(r"\)[^;{}()=\"']{0,80}?(?:=>\s*)?\{")
_PARTED = frozenset({"c", "cpp", "java", "go", "javascript", "php"})


def corrupted(text: str, language: str, kind: Kind, seed: int) -> str | None:
    """The text with that harm; None where there is nothing to harm in that way."""
    rng = random.Random(f"{kind}/{seed}/{len(text)}")
    harmed = _HARM[kind](text, language, rng)
    return None if harmed is None or harmed == text else harmed


def _truncated(text: str, language: str, rng: random.Random) -> str | None:
    """Ends somewhere between a tenth and nine tenths of the way."""
    return text[: rng.randint(len(text) // 10, len(text) * 9 // 10)] if len(text) >= 40 else None


def _without_imports(text: str, language: str, rng: random.Random) -> str | None:
    """Every statement that brings something in is gone."""
    return IMPORTS[language].sub("", text) if language in IMPORTS else None


def _with_placeholders(text: str, language: str, rng: random.Random) -> str | None:
    """One line in ten of code gives way to a remark that something belongs there."""
    lines = text.split("\n")
    full = [number for number, line in enumerate(lines) if line.strip()]
    if len(full) < 5 or language == "json":
        return None
    for number in rng.sample(full, max(1, len(full) // 10)):
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        remark = rng.choice(_PLACEHOLDERS)
        if language in ("html", "xml", "markdown"):
            lines[number] = f"{indent}<!-- {remark} -->"
        elif language == "css":
            lines[number] = f"{indent}/* {remark} */"
        else:
            lines[number] = f"{indent}{_COMMENT.get(language, '')} {remark}"
    return "\n".join(lines)


def _without_brackets(text: str, language: str, rng: random.Random) -> str | None:
    """One bracket of code, or one tag of a page, is gone."""
    if language in LEXED:
        found = list(_BRACKET.finditer(blanked(text, language).code))
    elif language in ("html", "xml"):
        return _without_a_tag(text, rng)
    else:
        return None
    if not found:
        return None
    place = rng.choice(found).start()
    return text[:place] + text[place + 1 :]


def _without_a_tag(text: str, rng: random.Random) -> str | None:
    """The `>` of one tag is gone, or the whole tag when it closes something."""
    plain = RAW.sub(lambda match: " " * len(match[0]), text)
    found = [tag for tag in _HTML_TAG.finditer(plain) if tag[1].lower() not in known_words.OPTIONAL]
    if not found:
        return None
    tag = rng.choice(found)
    kept = "" if tag[0].startswith("</") and rng.random() < 0.5 else tag[0][:-1]
    return text[: tag.start()] + kept + text[tag.end() :]


def _with_empty_bodies(text: str, language: str, rng: random.Random) -> str | None:
    """Half of the functions, at least one, do nothing any more."""
    if language == "python":
        return _with_empty_python(text, rng)
    if language not in _PARTED:
        return None
    code = blanked(text, language).code
    bodies = [
        (match.end(), end) for match in _FUNCTION.finditer(code) if (end := _end_of(code, match.end())) is not None
    ]
    full = [(begin, end) for begin, end in bodies if code[begin:end].strip()]
    if not full:
        return None
    chosen = sorted(rng.sample(full, max(1, len(full) // 2)), reverse=True)
    for begin, end in chosen:
        inside = any(other < begin and end < other_end for other, other_end in chosen)
        if not inside:
            text = text[:begin] + text[end:]
    return text


def _end_of(code: str, begin: int) -> int | None:
    """Where the bracket that closes the body from `begin` stands."""
    depth = 1
    for match in re.finditer(r"[{}]", code[begin:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return begin + match.start()
    return None


def _with_empty_python(text: str, rng: random.Random) -> str | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    full = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and one.body[0].lineno > one.lineno
        and not all(isinstance(line, ast.Pass | ast.Expr) for line in one.body)
    ]
    if not full:
        return None
    lines = text.split("\n")
    for one in rng.sample(full, max(1, len(full) // 2)):
        first, last = one.body[0].lineno - 1, one.end_lineno or one.body[-1].lineno
        lines[first:last] = [f"{' ' * one.body[0].col_offset}pass", *[""] * (last - first - 1)]
    return "\n".join(lines)


_HARM = {
    "truncated": _truncated,
    "imports_dropped": _without_imports,
    "placeholders": _with_placeholders,
    "brackets_lost": _without_brackets,
    "bodies_emptied": _with_empty_bodies,
}
