"""Reads shell commands out of a documented block: prompts, printed output, continuations, heredocs, what cannot run.

Only text is looked at here; whether a command exists in an image and what it does is found out in documented.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.generators.documents import Block

SHELL_LANGUAGES = {
    "sh",
    "bash",
    "shell",
    "zsh",
    "console",
    "shell-session",
    "shellsession",
    "terminal",
    "cli",
    "ksh",
    "sh-session",
}
UNLABELLED = {"", "text", "none", "plain", "plaintext", "txt"}
PROMPT = re.compile(r"^\s{0,3}(?:\$|▶|❯|➜|%|[\w.-]+@[\w.-]+:?[^\s$#]*[$#]|[\w-]+%)\s+(?=\S)")
ROOT_PROMPT = re.compile(r"^# (?=[a-z][\w./-]+(\s|$))")
NETWORK = re.compile(
    r"(?<![\w./-])(?:curl|wget|ssh|scp|rsync|ftp|telnet|nc|ping|dig|brew|apt|apt-get|yum|dnf"
    r"|pacman|apk|zypper|snap|port|gem|composer|cargo|conda"
    r"|npx|yarn|pnpm|bower|composer\.phar|gradle|gradlew|mvn|pipx|uv|easy_install|vcpkg|datasette|heroku|gh)(?=\s|$)"
    r"|(?<![\w./-])(?:npm|pip3?|python3? -m pip)\s+(?:install|i|ci|update|publish|download|uninstall)\b"
    r"|(?<![\w./-])go\s+(?:get|install|mod)\b|\bgit\s+(?:clone|pull|push|fetch|submodule)\b"
    r"|sqlite-utils install\b|llm install\b"
)
URL = re.compile(r"\b(?:https?|ftp|git|ssh|postgres(?:ql)?|mysql|mssql|oracle)(?:\+\w+)?://")
CONTAINERS = re.compile(r"(?<![\w./-])(?:docker|docker-compose|podman|kubectl|vagrant|systemctl|service)(?=\s|$)")
INTERACTIVE = re.compile(
    r"(?<![\w./-])(?:vi|vim|nano|emacs|less|more|top|htop|man|firefox|open|xdg-open|ipython"
    r"|tmux|screen)(?=\s|$)|^\s*(?:python3?|node|php -a|bash|sh|su)\s*$"
)
PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w .|/-]*>(?!\()|(?<=\s)\[[\w<-][^\]\n\"'|&;]*\](?=\s|$)|(?<![\w./])\.\.\.(?![\w/])"
    r"|…|\bpath/to\b|/path/|\byour[-_ ]?\w+|\bmy-?app\b|\bFOO_?BAR\b|\{\{"
)
SERVER = re.compile(r"&\s*$|(?<![\w./-])(?:serve|runserver|http\.server|watch)(?=\s|$)")
TEST_SUITE = re.compile(
    r"(?<![\w./-])(?:go test|npm (?:test|run)|make (?:test|check)|ctest|pytest|phpunit|tox|rake"
    r"|cargo test|mocha|tap)\b"
)
STATEFUL = re.compile(
    r"^\s*(?:cd|pushd|export|source|\.|alias|set|shopt|unset|function|declare)\s|^\s*\w+=\S*\s*$|^\s*\w+\s*\(\)\s*\{"
)
KEYWORDS = {
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "until",
    "case",
    "esac",
    "{",
    "}",
    "!",
    "time",
    "function",
    "[",
    "[[",
}
BUILTINS = {
    "echo", "printf", "cd", "export", "set", "source", ".", "test", "true", "false", "read", "alias", "unset",
    "pwd", "exit", "eval", "exec", "shopt", "declare", "local", "pushd", "popd", "wait", "trap", "type",
    "command", "let", ":",
}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """One command as documented."""

    text: str
    """Complete command, may span lines."""
    output: str | None = None
    """What the document says it prints; None when it says nothing."""
    comment: str = ""
    """Comment lines right above the command."""


@dataclass(frozen=True)
class Stage:
    """One simple command of a pipeline or list."""

    words: tuple[str, ...]
    """Words with quotes removed; redirections taken out."""
    reads: tuple[str, ...] = ()
    """Targets of `<`."""
    writes: tuple[str, ...] = ()
    """Targets of `>` and `>>`."""
    joined_by: str = ""
    """Operator in front of it: `|`, `;`, `&&`, `||`, or empty for the first."""


def parse_block(block: Block) -> list[Command]:
    """Commands of a block, empty when the block does not hold shell commands."""
    lines = block.text.split("\n")
    prompted = [i for i, line in enumerate(lines) if PROMPT.match(line)]
    if (
        not prompted
        and block.language in SHELL_LANGUAGES | {""}
        and len(lines) > 0
        and all(_root_prompt(x) for x in lines if x.strip())
    ):
        return [Command(ROOT_PROMPT.sub("", line)) for line in lines if line.strip()]
    if prompted and block.language in SHELL_LANGUAGES | UNLABELLED:
        return _prompted(lines)
    if block.language in SHELL_LANGUAGES | {""}:
        return _plain(lines)
    return []


def _root_prompt(line: str) -> bool:
    return bool(ROOT_PROMPT.match(line)) and " " in line.strip("# ") and not line.rstrip().endswith((".", ":"))


def _prompted(lines: list[str]) -> list[Command]:
    commands: list[Command] = []
    comment = ""
    index = 0
    while index < len(lines):
        if not (match := PROMPT.match(lines[index])):
            index += 1
            continue
        text, index = _complete(lines, index, lines[index][match.end() :])
        output: list[str] = []
        while index < len(lines) and not PROMPT.match(lines[index]):
            output.append(lines[index])
            index += 1
        if text.startswith("#"):
            comment = text.lstrip("# ")
            continue
        text = _without_comment(text)
        shown = "\n".join(output).strip("\n")
        commands.append(Command(text.strip(), shown if shown.strip() else None, comment))
        comment = ""
    return commands


def _plain(lines: list[str]) -> list[Command]:
    commands: list[Command] = []
    comments: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip() or line.lstrip().startswith("#"):
            comments = [*comments, line.strip().lstrip("# ")] if line.strip() else []
            index += 1
            continue
        text, index = _complete(lines, index, line)
        commands.append(Command(_without_comment(text).strip(), None, " ".join(comments)))
        comments = []
    return commands


def _without_comment(text: str) -> str:
    return text if "\n" in text else re.sub(r"\s+#\s+[^'\"]*$", "", text)


def _complete(lines: list[str], index: int, first: str) -> tuple[str, int]:
    """Add continuation lines, open quotes and heredocs; returns the command and the index behind it."""
    text, index = first, index + 1
    while index < len(lines) and len(text) < 4000:
        marker = re.search(r"<<-?\s*(['\"]?)(\w+)\1", text)
        if marker and not re.search(rf"^\s*{marker[2]}\s*$", text, re.MULTILINE):
            pass
        elif not (text.rstrip().endswith(("\\", "|", "&&")) or open_quote(text)):
            break
        text += "\n" + re.sub(r"^> (?=\S)", "", lines[index])
        index += 1
    return text, index


def open_quote(text: str) -> bool:
    """Whether a quote is still open at the end of the text."""
    quote = ""
    escaped = False
    for position, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (position == 0 or text[position - 1].isspace()):
            break
    return bool(quote)


def unrunnable(command: str) -> tuple[str, str] | None:
    """(failure class, reason) when the text alone shows that the command cannot be used, else None."""
    visible = _without_quotes(command)
    for pattern, failure, reason in (
        (TEST_SUITE, "test_suite", "runs the repository's own tests, whose output is a log"),
        (CONTAINERS, "needs_engine", "works on containers or services"),
        (NETWORK, "needs_network", "installs or downloads"),
        (URL, "needs_network", "names a remote address"),
        (PLACEHOLDER, "placeholder", "holds a placeholder"),
        (INTERACTIVE, "interactive", "waits for a person"),
        (SERVER, "server", "does not end by itself"),
    ):
        target = command if pattern in (URL,) else visible
        if match := pattern.search(target):
            return failure, f"{reason}: {match[0].strip()[:60]}"
    if open_quote(command):
        return "syntax", "a quote is never closed"
    return None


def _without_quotes(command: str) -> str:
    return re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", " q ", command, flags=re.DOTALL)


def without_sudo(command: str) -> str:
    """`sudo` dropped: the sandbox is root already."""
    return re.sub(r"(^|[|;&]\s*)sudo\s+(?:-[EHn]\s+)*", r"\1", command)


def is_stateful(command: str) -> bool:
    """Whether later commands of the same block depend on the shell that ran it."""
    return bool(STATEFUL.match(command))


TOKEN = re.compile(
    r"""
    (?P<space>[ \t]+|\\\n)
    |(?P<operator>\|\||&&|\|&|[|;\n()]|&(?!>))
    |(?P<redirect>(?:\d|&)?(?:>>|>&|>\||>(?!\()|<<<|<<-?|<(?!\())(?:&?\d(?!\w))?)
    |(?P<word>(?:
        [^\s|;&()<>'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*"
        |\$\((?:[^()]|\([^()]*\))*\)|[<>]\((?:[^()]|\([^()]*\))*\)
    )+)
    |(?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)


def stages(command: str) -> list[Stage]:
    """The simple commands in a command, with redirections taken apart. Heredoc bodies are left out."""
    text = re.sub(r"(<<-?\s*(['\"]?)(\w+)\2[^\n]*)\n.*?\n\s*\3[ \t]*(?=\n|$)", r"\1", command, flags=re.DOTALL)
    found: list[Stage] = []
    words: list[str] = []
    reads: list[str] = []
    writes: list[str] = []
    joined, target = "", ""
    for match in TOKEN.finditer(text + "\n"):
        kind, value = match.lastgroup, match[0]
        if kind == "word":
            clean = unquote(value)
            if target.startswith("<<"):
                pass
            elif "<" in target:
                reads.append(clean)
            elif ">" in target:
                writes.append(clean)
            else:
                words.append(clean)
            target = ""
        elif kind == "redirect":
            target = "" if re.search(r"&\d$|>\d$", value) else value
        elif kind == "operator":
            if words or writes:
                found.append(Stage(tuple(words), tuple(reads), tuple(writes), joined))
            words, reads, writes, joined, target = [], [], [], value, ""
    return found


def unquote(word: str) -> str:
    """A word as the shell hands it over, as far as that can be said without running it."""
    if match := re.fullmatch(r"\$'([^']*)'", word):
        return match[1]
    parts = re.findall(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^'\"\\]+", word, re.DOTALL)
    out = []
    for part in parts:
        if part[0] == "'" and len(part) > 1:
            out.append(part[1:-1])
        elif part[0] == '"' and len(part) > 1:
            out.append(re.sub(r"\\([\"\\$`])", r"\1", part[1:-1]))
        else:
            out.append(part[1:] if part[0] == "\\" else part)
    return "".join(out)


def outputs_of(command: str) -> set[str]:
    """Names that a command writes, as far as its text says so."""
    found: set[str] = set()
    for stage in stages(command):
        found |= set(stage.writes)
        if stage.words and stage.words[0] in {"mkdir", "touch", "cp", "mv", "tee", "rm"}:
            found |= {w for w in stage.words[-1:] if not w.startswith("-")}
        for option, value in zip(stage.words, stage.words[1:], strict=False):
            if re.fullmatch(r"-o|-O|--out[\w-]*|--save|--name-cache", option) and not value.startswith("-"):
                found.add(value)
        found |= {w for w in stage.words[1:] if re.search(r"\w\.(?:db|sqlite3?)$", w) and not re.search(r"\s", w)}
    return found


def first_words(command: str) -> set[str]:
    """Names of the programs that a command starts, without shell built-ins, keywords and assignments."""
    names = set()
    for stage in stages(command):
        words = list(stage.words)
        while words and (re.match(r"^\w+=", words[0]) or words[0] in KEYWORDS):
            words = [] if words[0] in {"for", "case", "in"} else words[1:]
        if words and words[0] not in BUILTINS and not words[0].startswith("#"):
            names.add(words[0])
    return names


def looks_like_path(word: str) -> bool:
    """Whether a word names a file: it has an extension or a slash, and nothing else explains it."""
    if (
        not word
        or len(word) > 200
        or word.startswith(("-", "$", "<", ">"))
        or "://" in word
        or re.search(r"[\s*?{}|;'\"=,\[\]()]", word)
    ):
        return False
    return bool(re.search(r"[\w-]\.[A-Za-z][\w]{0,9}$", word) or re.match(r"^[\w.~-]*(/[\w.-]+)+/?$", word))


def input_files(command: str) -> list[str]:
    """Words that name files which the command reads (or writes by an option)."""
    names: list[str] = []
    for stage in stages(command):
        for word in [*stage.words[1:], *stage.reads]:
            value = word.split("=", 1)[1] if re.match(r"^--?[\w-]+=", word) else word
            if (looks_like_path(value) or word in stage.reads) and value not in names and value not in stage.writes:
                names.append(value)
    return names
