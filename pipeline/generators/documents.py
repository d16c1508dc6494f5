"""Finds the documented code of a repository: the block, the prose that introduces it and the headings above it.

Reads Markdown, reStructuredText, AsciiDoc, manual pages and plain text from the tar of the tree. What a block
means (commands, a program, data) is decided in commands.py and programs.py, not here.
"""

from __future__ import annotations

import html
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_DOCUMENT_BYTES = 400_000
MAX_BLOCKS_PER_DOCUMENT = 120
SKIPPED_PARTS = {
    "debian",
    ".pc",
    ".git",
    "node_modules",
    "vendor",
    "site-packages",
    "_build",
    "third_party",
    "test_old",
}
SKIPPED_STEMS = re.compile(
    r"(?i)^(change|news|history|license|licence|copying|authors|contributors|code_of_conduct|release|upgrad|todo)"
)
MARKDOWN = {".md", ".markdown", ".mkd", ".mkdn", ".mdown"}
MANUAL = re.compile(r"\.[1-8]$")


@dataclass(frozen=True)
class Block:
    """One documented piece of code."""

    document: str
    line: int
    """Line where the code starts, from 1."""
    headings: tuple[str, ...]
    prose: str
    """Text between the previous block or heading and this block; empty when there is none."""
    language: str
    """First word of the info string in lower case; empty when the document does not say."""
    text: str
    """The code, newline-separated, without trailing newline."""
    section_prose: str = ""
    """First paragraph of the section, for blocks that are introduced by nothing but 'or:'."""
    opening: str = ""
    """First paragraph of the document."""


@dataclass
class Tree:
    """The files of a repository as they stand in its tar. Symbolic links and devices are left out."""

    sizes: dict[str, int]
    path: Path
    _cache: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> Tree:
        """Raises tarfile.TarError and OSError when the tar cannot be read."""
        with tarfile.open(path) as tar:
            return cls({_clean(m.name): m.size for m in tar if m.isfile()}, path)

    def load(self, names: set[str]) -> None:
        """Read several files in one pass over the tar."""
        wanted = {n for n in names if n in self.sizes and n not in self._cache}
        if not wanted:
            return
        with tarfile.open(self.path) as tar:
            for member in tar:
                name = _clean(member.name)
                if name in wanted and member.isfile() and (stream := tar.extractfile(member)) is not None:
                    self._cache[name] = stream.read()

    def read(self, name: str) -> bytes:
        """Content of one file. Raises KeyError when the tree has none of this name."""
        if name not in self.sizes:
            raise KeyError(name)
        self.load({name})
        return self._cache[name]

    def text(self, name: str) -> str:
        """Content with replacement of what is not UTF-8, line ends as newlines. Raises KeyError."""
        return self.read(name).decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _clean(name: str) -> str:
    return name.removeprefix("./").strip("/")


def document_names(tree: Tree) -> list[str]:
    """Documents worth reading, the ones a newcomer reads first in front."""
    names = [name for name, size in tree.sizes.items() if size <= MAX_DOCUMENT_BYTES and _is_document(name)]
    newest: dict[str, int] = {}
    for name in names:
        newest[_series(name)] = max(_version(name), newest.get(_series(name), 0))
    return sorted((n for n in names if not _version(n) or _version(n) == newest[_series(n)]), key=_reading_order)


def _is_document(name: str) -> bool:
    path = PurePosixPath(name)
    parts = {part.lower() for part in path.parts[:-1]}
    if parts & SKIPPED_PARTS or SKIPPED_STEMS.match(path.name):
        return False
    if any(part.startswith("test") or part in {"fixtures", "spec", "fuzzing"} for part in parts):
        return path.name.lower().startswith("readme.")
    suffix = path.suffix.lower()
    if suffix in MARKDOWN or suffix in {".rst", ".adoc", ".scd"} or MANUAL.search(path.name):
        return True
    return path.stem.lower() in {"readme", "usage", "install", "howto"} and suffix in {"", ".txt"}


def _reading_order(name: str) -> tuple[int, int, str]:
    path = PurePosixPath(name)
    first = 0 if path.stem.lower() == "readme" and len(path.parts) == 1 else 1
    return (first, len(path.parts), name)


def _series(name: str) -> str:
    """Folder in which the versions of one set of documents stand side by side."""
    return re.split(r"/v?\d+(?:\.\d+)?/", f"/{name}")[0]


def _version(name: str) -> int:
    """Number of the version that a folder in the path names; 0 when none does."""
    match = re.search(r"/v?(\d+)(?:\.(\d+))?/", f"/{name}")
    return int(match[1]) * 1000 + int(match[2] or 0) if match else 0


def read_blocks(tree: Tree) -> Iterator[Block]:
    """All code blocks of all documents, in reading order."""
    names = document_names(tree)
    tree.load(set(names))
    for name in names:
        yield from blocks_of(name, tree.text(name))[:MAX_BLOCKS_PER_DOCUMENT]


def blocks_of(name: str, text: str) -> list[Block]:
    """Code blocks of one document, by the kind that its name says."""
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    if suffix in MARKDOWN:
        return _markdown(name, text)
    if suffix == ".rst":
        return _indented(name, text, rst=True)
    if suffix == ".adoc":
        return _asciidoc(name, text)
    if MANUAL.search(path.name):
        return _indented(name, _roff_to_text(text), rst=False)
    return _indented(name, text, rst=False)


def paragraphs_of(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, heading above, paragraph) of a document of any format; for finding where something is named."""
    heading, start, gathered = "", 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if match := re.match(r"(?:#{1,6}|={1,6}) (\S.*)", line):
            heading = plain(match[1])
        elif line.strip():
            start = start if gathered else number
            gathered.append(line.strip())
            continue
        if gathered:
            yield start, heading, plain(" ".join(gathered))
            gathered = []


class _Collector:
    """Gathers headings, prose and blocks in document order."""

    def __init__(self, document: str) -> None:
        self.document = document
        self.blocks: list[Block] = []
        self._headings: list[tuple[int, str]] = []
        self._prose: list[str] = []
        self._section: str = ""
        self._opening = ""

    def heading(self, level: int, title: str) -> None:
        self._headings = [h for h in self._headings if h[0] < level] + [(level, plain(title))]
        self._prose, self._section = [], ""

    def paragraph(self, text: str) -> None:
        text = plain(text)
        if not text:
            return
        self._section = self._section or text
        if not self._opening and len(text.split()) > 3 and not text.startswith(("[", "!", ">")):
            self._opening = text
        self._prose.append(text)

    def block(self, line: int, language: str, text: str) -> None:
        text = text.rstrip("\n").expandtabs(8) if language in {"", "text"} else text.rstrip("\n")
        if not text.strip():
            return
        titles = tuple(title for _, title in self._headings)
        prose = "\n".join(self._prose[-2:])
        self.blocks.append(Block(self.document, line, titles, prose, language, text, self._section, self._opening))
        self._prose = []


def plain(text: str) -> str:
    """Prose without links, images, roles and line breaks; inline code keeps its backticks."""
    text = re.sub(r"!\[[^\]]*\](\([^)]*\)|\[[^\]]*\])", "", text)
    text = re.sub(r"\[([^\]]+)\](\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r":doc:`(?:[^`<]*/)?([^`</]+)`", r"`\1`", text)
    text = re.sub(
        r":(?:doc|ref|program|option|file|code|class|func|meth|issue):`~?([^`<]+?)\s*(?:<[^`>]*>)?`", r"`\1`", text
    )
    text = re.sub(r"`([^`<>]+?)\s*<[^`>]+>`__?", r"\1", text)
    text = text.replace("``", "`") if "```" not in text else text
    text = re.sub(r"<(?!/?[a-z-]+(?:=|\.\.|\|))/?[a-zA-Z][^<>]{0,200}>", "", text) if "`" not in text else text
    text = re.sub(r"\*\*(\S.*?)\*\*", r"\1", text)
    text = re.sub(r"(?:https?|link):\S+?\[([^\]]+)\]", r"\1", text)
    return " ".join(html.unescape(text).split())


def _info(info: str) -> str:
    """`{.python numberLines}`, `php title="x"` and `sh{1}` all say one language."""
    match = re.match(r"\s*\{?\s*\.?([A-Za-z+#0-9_-]+)", info)
    return match[1].lower() if match else ""


def _markdown(name: str, text: str) -> list[Block]:
    found = _Collector(name)
    if text.startswith("---\n") and (end := text.find("\n---", 4)) > 0:
        text = "\n" * text[: end + 4].count("\n") + text[end + 4 :]
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for index, token in enumerate(tokens):
        line = (token.map[0] if token.map else 0) + 1
        if token.type == "heading_open":
            found.heading(int(token.tag[1:]), tokens[index + 1].content)
        elif token.type == "inline" and not _inside(tokens, index, {"heading_open", "th_open", "td_open"}):
            found.paragraph(token.content)
        elif token.type == "fence":
            found.block(line + 1, _info(token.info), token.content)
        elif token.type == "code_block":
            found.block(line, "", token.content)
        elif token.type == "html_block":
            for pre in re.findall(r"<pre[^>]*>(.*?)</pre>", token.content, re.DOTALL):
                found.block(line, "", html.unescape(re.sub(r"<[^>]+>", "", pre)).strip("\n"))
    return found.blocks


def _inside(tokens: list[Token], index: int, kinds: set[str]) -> bool:
    return index > 0 and tokens[index - 1].type in kinds


RST_RULE = re.compile(r"^([=\-~^\"'#*+.`:_])\1{2,}\s*$")
RST_DIRECTIVE = re.compile(r"^(\s*)\.\. (?:code-block|code|sourcecode|highlight)::\s*(\S*)\s*$")
RST_OTHER = re.compile(r"^\s*\.\. (\[\[|_|[\w-]+::|\|)")


def _indented(name: str, text: str, *, rst: bool) -> list[Block]:
    """reStructuredText, and plain text in which code is set off by indentation."""
    found = _Collector(name)
    lines = text.split("\n")
    levels: list[str] = []
    paragraph: list[str] = []
    index = 0
    pending: str | None = None if rst else ""
    while index < len(lines):
        line = lines[index]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if line.strip() and not line[0].isspace() and RST_RULE.match(following) and len(following.strip()) >= 3:
            _flush(found, paragraph)
            mark = following[0]
            levels = levels if mark in levels else [*levels, mark]
            found.heading(levels.index(mark) + 1, line)
            index, pending = index + 2, None if rst else ""
        elif rst and (directive := RST_DIRECTIVE.match(line)):
            _flush(found, paragraph)
            index, pending = index + 1, directive[2].lower()
        elif not line.strip():
            if paragraph and paragraph[-1].endswith("::") and rst:
                pending = ""
            _flush(found, paragraph)
            index += 1
        elif line[0].isspace() and (pending is not None) and not paragraph:
            index = _take_block(found, lines, index, pending)
            pending = None if rst else ""
        else:
            if not (rst and (RST_OTHER.match(line) or RST_RULE.match(line) or re.match(r"\s*:[\w-]+:", line))):
                paragraph.append(line.strip())
            index += 1
    _flush(found, paragraph)
    return found.blocks


def _flush(found: _Collector, paragraph: list[str]) -> None:
    if paragraph:
        found.paragraph(re.sub(r"::$", ":", " ".join(paragraph)))
        paragraph.clear()


def _take_block(found: _Collector, lines: list[str], index: int, language: str) -> int:
    """Take the indented lines that start at `index`; returns the index behind them."""
    start = index
    taken: list[str] = []
    while index < len(lines) and (not lines[index].strip() or lines[index][0].isspace()):
        taken.append(lines[index])
        index += 1
    while taken and re.match(r"\s*:[\w-]+:", taken[0]):
        taken.pop(0)
        start += 1
    margin = min((len(t) - len(t.lstrip()) for t in taken if t.strip()), default=0)
    found.block(start + 1, language, "\n".join(t[margin:] for t in taken).strip("\n"))
    return index


def _asciidoc(name: str, text: str) -> list[Block]:
    found = _Collector(name)
    language, fence, start = "", "", 0
    taken: list[str] = []
    paragraph: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if fence:
            if line.rstrip() == fence:
                found.block(start, language, "\n".join(taken))
                fence, language, taken = "", "", []
            else:
                taken.append(line)
        elif re.fullmatch(r"-{4,}|\.{4,}|```\w*", line.rstrip()):
            _flush(found, paragraph)
            fence, start = ("```" if line.startswith("```") else line.rstrip()), number + 1
            language = language or line.rstrip().lstrip("`-.").lower()
        elif match := re.match(r"\[source,\s*([\w+-]+)", line):
            language = match[1].lower()
        elif match := re.match(r"(={1,6}) (\S.*)", line):
            _flush(found, paragraph)
            found.heading(len(match[1]), match[2])
        elif not line.strip() or line.startswith(("//", ":", "[", "include::")):
            _flush(found, paragraph)
        else:
            paragraph.append(line.strip())
    _flush(found, paragraph)
    return found.blocks


def _roff_to_text(text: str) -> str:
    """Enough of man and mdoc macros to tell headings, paragraphs and literal displays apart."""
    out: list[str] = []
    literal = False
    for line in text.split("\n"):
        line = re.sub(r"\\f[BIRP]|\\&|\\/|\\,", "", line).replace("\\-", "-").replace("\\e", "\\")
        line = line.replace("\\(aq", "'").replace("\\(dq", '"').replace("\\(ti", "~").replace("\\(ha", "^")
        macro, _, rest = line.partition(" ")
        rest = rest.strip().strip('"')
        if macro in {".SH", ".SS", ".Sh", ".Ss"}:
            out += ["", rest.title(), "=" * 3, ""]
        elif macro in {".nf", ".EX", ".Bd"}:
            literal = True
            out.append("")
        elif macro in {".fi", ".EE", ".Ed"}:
            literal = False
            out.append("")
        elif macro in {".PP", ".P", ".LP", ".TP", ".IP", ".RS", ".RE", ".sp", ".Pp"}:
            out.append("")
        elif macro in {".B", ".I", ".BR", ".RB", ".IR", ".RI", ".BI", ".IB"}:
            out.append(("    " if literal else "") + rest.replace('"', ""))
        elif not line.startswith((".", "'")) and "\\n[" not in line:
            out.append(("    " if literal and line.strip() else "") + line)
    return "\n".join(out)
