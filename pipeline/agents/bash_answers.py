"""Finds the command in what a model answered for a shell, however it was wrapped, and whether it hands in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.llm.answers import CodeBlock, blocks, plain

SHELLS = {"bash", "sh", "shell", "console", "shell-session", "zsh", ""}
_SESSIONS = {"console", "shell-session"}
"""Blocks in which only lines with a prompt are commands, the others what the model thinks they print."""
_DONE = re.compile(r"^[^\w\n]*DONE[^\w\n]*$", re.MULTILINE)
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_HEREDOC = re.compile(r"(?<!<)<<(-?)[ \t]*(?:\\?([A-Za-z_][\w.-]*)|'([^'\n]+)'|\"([^\"\n]+)\")")
_SPAN = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[\w./+-]+(?=\s|$)")
_WORDS = re.compile(r"\b[a-z]+ [a-z]+ [a-z]+")
_OF_COMMANDS = re.compile(r"[|<>&;=/-]")
"""Not in what a sentence ends with."""
_PROGRAMS = frozenset(
    re.findall(
        r"\S+",
        "awk base64 bash cat cd chmod chown cmp comm convert cp curl cut date diff du echo env export file "
        "find gcc git go grep gunzip gzip head jq ln ls make mkdir mktemp mv node npm openssl perl php pip "
        "printf ps pwd pytest python python3 rm rmdir sed seq sh sha256sum sort sqlite3 ss stat tail tar tee "
        "test touch tr tree uniq unzip wc which xargs xxd zip",
    )
)
"""First words of an answer that is a command even without a block."""


def read(answer: str) -> tuple[str, str | None, bool]:
    """(thought, command or None, whether the answer hands in). What stands behind the first command is not read.

    A block that says that it is of a shell comes before those that say nothing. Without any block, an answer that is
    nothing but a command is one too: small models forget the block more often than not.
    """
    text, found = plain(answer), blocks(answer)
    lines = text.split("\n")
    shells = [block for block in found if block.language in SHELLS and block.text.strip()]
    for block in sorted(shells, key=lambda one: one.language == "")[:1]:
        thought = "\n".join(lines[: block.line]).strip()
        if _DONE.fullmatch(block.text.strip()):
            return thought, None, True
        if command := _command(_whole(lines, block), block.language):
            return thought, command, False
    if not found and (bare := _bare(text.strip())):
        return "", bare, False
    for block in found:
        if _DONE.fullmatch(block.text.strip()):
            continue
        behind = block.line + block.text.count("\n") + 2
        lines[block.line : behind] = [""] * len(lines[block.line : behind])
    return _DONE.sub("", text).strip(), None, _DONE.search("\n".join(lines)) is not None


class Heredocs:
    """Follows the lines of a script, to know which of them are the text of a heredoc."""

    def __init__(self) -> None:
        self._ends: list[tuple[bool, str]] = []

    @property
    def open(self) -> bool:
        return bool(self._ends)

    def take(self, line: str) -> None:
        """The next line."""
        if not self._ends:
            self._ends = [(bool(dash), a or b or c) for dash, a, b, c in _HEREDOC.findall(line)]
            return
        dash, end = self._ends[0]
        if (line.lstrip("\t") if dash else line) == end:
            del self._ends[0]


def _whole(lines: Sequence[str], block: CodeBlock) -> str:
    """The text of a block. A fence inside of a heredoc does not end it, though Markdown says so."""
    opening = lines[block.line]
    margin = len(opening) - len(opening.lstrip(" "))
    heredocs = Heredocs()
    if not _FENCE.match(opening):  # in a quote or behind the mark of a list
        return block.text
    for number, line in enumerate(lines[block.line + 1 :], start=block.line + 1):
        if _FENCE.match(line) and number > block.line + block.text.count("\n") and not heredocs.open:
            return "\n".join(_unindented(one, margin) for one in lines[block.line + 1 : number])
        heredocs.take(_unindented(line, margin))
    rest = lines[block.line + 1 :]
    return block.text if heredocs.open else "\n".join(_unindented(one, margin) for one in rest)


def _unindented(line: str, margin: int) -> str:
    return line if line[:margin].strip() else line[margin:]


def _command(text: str, language: str) -> str:
    """What a shell is to run of a block: no prompts, no printed lines, no DONE behind the commands."""
    lines = text.strip("\n").split("\n")
    session = language in _SESSIONS and any(line.startswith("$ ") for line in lines)
    kept: list[str] = []
    heredocs = Heredocs()
    goes_on = False
    for line in lines:
        if not heredocs.open and not goes_on:
            if session and not line.startswith("$ "):
                continue
            if line.strip() == "DONE":
                continue
            line = line.removeprefix("$ ")
        kept.append(line)
        heredocs.take(line)
        goes_on = line.endswith("\\")
    return "\n".join(kept).strip("\n")


def _bare(text: str) -> str | None:
    """A text that is a command by its first word and no sentence, out of its backticks; None for any other."""
    alone = _SPAN.fullmatch(text)
    command = _command(alone[1] if alone else text, "")
    first = _WORD.match(command)
    if first is None or _is_sentence(command.partition("\n")[0]):
        return None
    return command if first[0] in _PROGRAMS or first[0].startswith(("/", "./")) else None


def _is_sentence(line: str) -> bool:
    end = _OF_COMMANDS.split(line)[-1]
    return end.endswith((".", ":", "!", "?")) and _WORDS.search(end) is not None
