"""What is opened and never closed in HTML, Markdown and makefiles. What follows from it is in file_quality.py."""

from __future__ import annotations

import re

from pipeline.scoring import known_words

_TAG = re.compile(
    r"<!--.*?(?:-->|(?P<comment>\Z))|<(?P<end>/?)(?P<name>[a-zA-Z][\w:-]*)(?P<rest>[^<>]*)(?P<close>>?)", re.S
)
RAW = re.compile(r"<(script|style|textarea|pre)\b[^>]*>.*?(?:(?P<end></\1\s*>)|\Z)", re.S | re.I)
"""Elements whose content is no markup, or may hold brackets of its own."""
_EMBEDDED = re.compile(r"<\?.*?(?:\?>|\Z)|\{%.{0,2000}?%\}|\{\{.{0,2000}?\}\}|<%.{0,2000}?%>", re.S)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*$", re.M)
_CALL = re.compile(r"\$[({]|[(){}]")
_OPENS = re.compile(r"^[ \t]*(ifeq|ifneq|ifdef|ifndef|define)\b", re.M)
_CLOSES = re.compile(r"^[ \t]*(endif|endef)\b", re.M)


def unclosed_in_html(text: str) -> int:
    """Tags without their partner or their bracket, and comments that go on; a fragment of a page may be whole."""
    text = _EMBEDDED.sub("", text)
    lost = 0
    text = RAW.sub(lambda one: " " if one["end"] else f"<{one[1]}>", text)
    opened: dict[str, int] = {}
    for tag in _TAG.finditer(text):
        if tag["name"] is None:
            lost += tag["comment"] is not None
            continue
        name = tag["name"].lower()
        if not tag["close"]:
            lost += 1
        if name in known_words.VOID or name in known_words.OPTIONAL or tag["rest"].endswith("/"):
            continue
        opened[name] = opened.get(name, 0) + (-1 if tag["end"] else 1)
    return lost + sum(abs(count) for count in opened.values())


def unclosed_in_markdown(text: str) -> int:
    """1 when the last block of code has no end."""
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence:
            fence = match[1]
        elif match[0].strip().strip(fence[0]) == "" and len(match[1]) >= len(fence):
            fence = ""
    return int(bool(fence))


def unclosed_in_makefile(text: str) -> int:
    """References and conditionals without an end."""
    plain = re.sub(r"\$\$|\\.|(?<!\\)#[^\n]*", "", text)
    depth = sum({"(": 1, "{": 1, ")": -1, "}": -1}[found[-1]] for found in _CALL.findall(plain))
    return abs(depth) + abs(len(_OPENS.findall(plain)) - len(_CLOSES.findall(plain)))
