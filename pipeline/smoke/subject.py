"""The image under test as the files of this package see it: a sandbox, the tree, and what is tried in them.

What to try for which language is in the other files, in which order and what follows from it in check.py.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.checkout import Tree
from pipeline.types import Repository
from sandbox.protocol import Sandbox
from sandbox.types import ExecResult

PROBES = Path(__file__).with_name("probes")
PLACE = "/tmp/touchstone-smoke"
"""Where probes lie in the sandbox."""
LISTENS = "touchstone: it listens"
"""What probes/started.sh writes when a program opened a port and lives on."""

Verdict = Literal["works", "fails", "broken"]
"""`broken`: something that the program needs is not in the image, or it crashed; weaker evidence cannot mend that."""

_MAX_TEXT = 2**20
_SURVEY_S = 30

_MISSING = re.compile(
    r"^(?:ModuleNotFoundError|ImportError|SyntaxError)\b|Cannot find (?:module|package) |ERR_MODULE_NOT_FOUND"
    r"|NoClassDefFoundError|ClassNotFoundException|UnsupportedClassVersionError|Could not find or load main class"
    r"|error while loading shared libraries|symbol lookup error|cannot open shared object file"
    r"|^(?:PHP )?(?:Fatal|Parse) error\b|Failed opening required",
    re.MULTILINE,
)
_CRASHED = re.compile(r"^Traceback \(most recent|^panic: |^Exception in thread |^terminate called|^fatal error: ", re.M)
_USAGE = re.compile(
    r"\b(?:usage|synopsis)\b|^(?:options?|syntax):|--help\b"
    r"|\b(?:unknown|unrecogni[sz]ed|invalid|illegal|bad|unsupported) (?:option|argument|flag|command|switch)"
    r"|\b(?:missing|requires?|required|expected|needs?|no|too few)\b.{0,40}"
    r"\b(?:arguments?|operands?|commands?|options?|files?|input)",
    re.IGNORECASE | re.MULTILINE,
)
_WANTS_ARGUMENTS = re.compile(r"sys\.argv.*\n(?:[ ~^\t]+\n)?(?:IndexError|ValueError: not enough values)")
"""A Python program that reads arguments nobody gave: it came that far by itself."""


@dataclass(frozen=True)
class Candidate:
    """One thing to try."""

    command: str
    """Shell, run in the working directory of the image."""
    verdict: Callable[[ExecResult], Verdict]
    kind: Literal["program", "import"] = "import"


class Subject:
    """One image with the repository that it was made from."""

    def __init__(self, repository: Repository, tree: Tree, sandbox: Sandbox, workdir: str) -> None:
        self.repository = repository
        self.tree = tree
        self.workdir = workdir
        """Where the tree lies in the image."""
        self._sandbox = sandbox
        self._sent: set[str] = set()

    def run(self, candidate: Candidate, timeout_s: float) -> ExecResult:
        """Raises SandboxUnavailable."""
        return self.execute(f"sh {self.probe('started.sh')} {shlex.quote(candidate.command)}", timeout_s)

    def execute(self, command: str, timeout_s: float) -> ExecResult:
        """One command that starts in the working directory, whatever the one before did. Raises SandboxUnavailable."""
        return self._sandbox.execute(f"(cd {shlex.quote(self.workdir)} && {command})", timeout_s=timeout_s)

    def ask(self, command: str) -> str:
        """What a look around printed; empty when it failed. Raises SandboxUnavailable."""
        result = self.execute(command, _SURVEY_S)
        return result.output if result.exit_code == 0 else ""

    def probe(self, name: str) -> str:
        """The path in the sandbox of a file of `probes/`. Raises SandboxUnavailable."""
        path = f"{PLACE}/{name}"
        if name not in self._sent:
            self._sandbox.put({path: (PROBES / name).read_bytes()}, mode=0o755)
            self._sent.add(name)
        return path

    def put(self, path: str, text: str) -> None:
        """Raises SandboxUnavailable."""
        self._sandbox.put({path: text.encode()})

    def text(self, name: str) -> str:
        """The text of a file of the tree, empty when there is none."""
        if name not in self.tree.files:
            return ""
        return self.tree.read(name, max_bytes=_MAX_TEXT).decode("utf-8", "replace").replace("\r\n", "\n")

    def json(self, name: str) -> Mapping[str, object]:
        """The JSON object in a file of the tree; empty when it holds none."""
        try:
            found = json.loads(self.text(name))
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def named(self, pattern: str) -> list[str]:
        """Names of files of the tree that match, shallowest first."""
        matching = [name for name in self.tree.files if re.fullmatch(pattern, name)]
        return sorted(matching, key=lambda name: (name.count("/"), name))

    def likeness(self, name: str) -> int:
        """0 when a name is the repository's, 1 when one contains the other, else 2: a key to sort with."""
        mine, other = plain(self.repository.name), plain(name)
        if mine == other:
            return 0
        return 1 if other and (mine in other or other in mine) else 2


def plain(name: str) -> str:
    """A name without what people write now so and now so: case, separators, the ending of a language."""
    name = re.sub(r"^(?:python|node|php|go|lib)-|[.-](?:js|py|cpp|go|php|c|css)$", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", name)


def programs(command: str) -> list[Candidate]:
    """A program in the ways that make one say something and end."""
    return [Candidate(f"{command} {flag}".strip(), ran, "program") for flag in ("--help", "--version", "-h", "")]


def ran(result: ExecResult) -> Verdict:
    """Whether a program really ran. It may refuse what it was asked, if it says how to ask."""
    code, text = result.exit_code, result.output
    if code is None or result.timed_out or result.oom_killed:
        return "fails"
    if code in (126, 127) or 128 < code < 165:
        return "broken"
    if code != 0 and _WANTS_ARGUMENTS.search(text):
        return "works"
    if code != 0 and _MISSING.search(text):
        return "broken"
    if _CRASHED.search(text):
        return "fails"
    return "works" if code == 0 or _USAGE.search(text) else "fails"


def exited_well(result: ExecResult) -> Verdict:
    """For probes, which judge by themselves."""
    return "works" if result.exit_code == 0 else "fails"


def first_lines(output: str, most: int) -> Iterable[str]:
    """The first lines of a list that an image printed."""
    return [line for line in output.splitlines() if line.strip()][:most]
