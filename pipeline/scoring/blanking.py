"""Source text without its comments and literals, and which of its brackets have no partner.

Small lexers by regular expressions: they know how comments and literals of a language begin and end, and nothing of its
grammar. Preprocessor branches, for instance, are all read. What follows from it for a file is in file_quality.py.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = r"//[^\n]*"
_BLOCK = r"/\*.*?(?:\*/|(?P<open_comment>\Z))"
_DOUBLE = r'"(?:\\.|[^"\\\n])*(?:"|(?P<open_double>\n|\Z))'
_SINGLE = r"'(?:\\.|[^'\\\n])*(?:'|(?P<open_single>\n|\Z))"
_ACROSS_DOUBLE = r'"(?:\\.|[^"\\])*(?:"|(?P<open_double>\Z))'
_ACROSS_SINGLE = r"'(?:\\.|[^'\\])*(?:'|(?P<open_single>\Z))"
_RAW = r"`[^`]*(?:`|(?P<open_raw>\Z))"
# One level of literals inside `${…}`; deeper ones are rare.
_TEMPLATE = r"`(?:\\.|\$\{(?:[^{}`]|`(?:\\.|[^`\\])*`|\{(?:[^{}]|\{[^{}]*\})*\})*\}|[^`\\])*(?:`|(?P<open_raw>\Z))"
_REGEX = (
    r"(?:(?<=[(,=:\[!&|?{};+*%~^<>])|(?<=[(,=:\[!&|?{};+*%~^<>]\ )|(?<=\breturn\ )|(?<=\bcase\ )|(?<=\btypeof\ )"
    r"|(?m:^[\ \t]*))/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n]){0,400}\]|[^/\\\n\[]){1,2000}/[a-z]*"
)
_TEXT_BLOCK = r'"""(?:\\.|[^\\])*?(?:"""|(?P<open_raw>\Z))'
_RAW_CPP = r'R"(?P<delimiter>[^\s()\\]{0,16})\(.*?(?:\)(?P=delimiter)"|(?P<open_raw>\Z))'
_DIGITS = r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])"
_HASH = r"(?:(?<=^)|(?<=[\s;(]))\#[^\n]*"
_HEREDOC_SHELL = r"<<-?\s*\\?(?P<q>['\"]?)(?P<word>\w+)(?P=q)[^\n]*\n.*?(?:^\t*(?P=word)$|(?P<open_heredoc>\Z))"
_HEREDOC_PHP = r"<<<\s*(?P<q>['\"]?)(?P<word>\w+)(?P=q)\n.*?(?:^\s*(?P=word)\b|(?P<open_heredoc>\Z))"
# In the shell a single quote escapes nothing.
_SHELL_SINGLE = r"'[^']*(?:'|(?P<open_single>\Z))"


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(part.replace(r"\ ", " ") for part in parts), re.DOTALL | re.MULTILINE)


_SYNTAX: dict[str, re.Pattern[str]] = {
    "c": _any(_LINE, _BLOCK, _DOUBLE, _SINGLE),
    "cpp": _any(_LINE, _BLOCK, _RAW_CPP, _DIGITS, _DOUBLE, _SINGLE),
    "java": _any(_LINE, _BLOCK, _TEXT_BLOCK, _DOUBLE, _SINGLE),
    "go": _any(_LINE, _BLOCK, _RAW, _DOUBLE, _SINGLE),
    "javascript": _any(_LINE, _BLOCK, _TEMPLATE, _DOUBLE, _SINGLE, _REGEX),
    "php": _any(_LINE, r"\#(?!\[)[^\n]*", _BLOCK, _HEREDOC_PHP, _ACROSS_DOUBLE, _ACROSS_SINGLE, _RAW),
    "css": _any(_BLOCK, _DOUBLE, _SINGLE),
    "shell": _any(r"\\.", r"\$\#", _HEREDOC_SHELL, _HASH, _ACROSS_DOUBLE, _SHELL_SINGLE),
    "json": _any(_DOUBLE),
    "toml": _any(_HASH, _DOUBLE, _SINGLE),
    "cmake": _any(_HASH, _ACROSS_DOUBLE),
    "python": _any(
        _HASH,
        r'"""(?:\\.|[^\\])*?(?:"""|(?P<open_raw>\Z))',
        r"'''(?:\\.|[^\\])*?(?:'''|(?P<open_heredoc>\Z))",
        _DOUBLE,
        _SINGLE,
    ),
}
LEXED = frozenset(_SYNTAX)
"""Languages with a lexer here."""

_PHP = re.compile(r"<\?(?:php\b|=)?(?P<code>.*?)(?:\?>|\Z)", re.DOTALL | re.IGNORECASE)
_BRACKETS = re.compile(r"[()\[\]{}]")
_PARTNER = {")": "(", "]": "[", "}": "{"}
_NOT_BLANK = re.compile(r"[^\n]")
_CASE = re.compile(r"\bcase\b[^\n;]{0,300}\bin\b|\besac\b|;;|[()\[\]{}]")
_BLOCKS = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else)\b)[ \t]*(if|for|while|until|case|select|fi|done|esac)\b", re.MULTILINE
)


class Blanked(NamedTuple):
    """A text of the same length whose comments and literals are spaces."""

    code: str
    open_literals: int
    """Comments and literals that the end of the text, or of their line, cuts off."""


def blanked(text: str, language: str) -> Blanked:
    """`language` is one of LEXED. What stands outside of PHP's tags is blank as well."""
    if language == "php":
        text = _php_only(text)
    open_literals = 0

    def blank(match: re.Match[str]) -> str:
        nonlocal open_literals
        if match.lastgroup is not None and match.lastgroup.startswith("open_"):
            open_literals += 1
        return _NOT_BLANK.sub(" ", match[0])

    return Blanked(_SYNTAX[language].sub(blank, text), open_literals)


def _php_only(text: str) -> str:
    parts, end = [], 0
    for match in _PHP.finditer(text):
        parts.append(_NOT_BLANK.sub(" ", text[end : match.start("code")]))
        parts.append(match["code"])
        end = match.end("code")
    return "".join(parts) + _NOT_BLANK.sub(" ", text[end:])


def mismatched(code: str, language: str) -> int:
    """How many brackets (in the shell: and compound commands) of blanked code have no partner."""
    if language == "shell":
        return _mismatched_in_shell(code)
    return _without_partner(_BRACKETS.findall(code))


def _without_partner(brackets: list[str]) -> int:
    waiting: list[str] = []
    lost = 0
    for bracket in brackets:
        partner = _PARTNER.get(bracket)
        if partner is None:
            waiting.append(bracket)
        elif waiting and waiting[-1] == partner:
            waiting.pop()
        elif partner in waiting[-3:]:
            # What was opened since has lost its end.
            while waiting.pop() != partner:
                lost += 1
        else:
            lost += 1
    return lost + len(waiting)


def _mismatched_in_shell(code: str) -> int:
    """A pattern of `case` ends with a bracket that nothing opens, and each of its parts but the last with `;;`."""
    brackets: list[str] = []
    depth = patterns = ends = 0
    for token in _CASE.findall(code):
        if token == "esac":
            depth = max(0, depth - 1)
        elif token == ";;":
            ends += 1
        elif len(token) > 1:
            depth += 1
        elif token == ")" and depth and "(" not in brackets[-1:]:
            patterns += 1
        elif token == ")" and brackets and brackets[-1] == "(":
            brackets.pop()
        else:
            brackets.append(token)
    words = _BLOCKS.findall(code)
    lost = sum(
        abs(sum(word in begin for word in words) - words.count(end))
        for begin, end in ((("if",), "fi"), (("for", "while", "until", "select"), "done"), (("case",), "esac"))
    )
    return _without_partner(brackets) + lost + max(0, ends - patterns)
