"""What to try in an image of a C or C++ library: a small program with its header and its library is compiled and run.

Programs of a C or C++ project are found like those of any other (programs.py).
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator

from pipeline.smoke.subject import Candidate, Subject, Verdict, plain
from sandbox.types import ExecResult

_MOST = 8
_COMPILED = "touchstone: the library is in this program"
_PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include <{header}>
int main(void) {{ puts("{said}"); return 0; }}
"""
_HEADER = r".*\.(?:h|hh|hpp|hxx|h\+\+)"
_SOURCE = r".*\.(?:c|cc|cpp|cxx|c\+\+|m|s|S|asm)"
_OTHERS = re.compile(
    r"(?:tests?|testing|unittests?|examples?|samples?|demos?|docs?|bench\w*|fuzz\w*|tools?|scripts?|third_party|extern\w*"
    r"|vendor|contrib|debian|cmake|support|perf\w*|ci)",
    re.IGNORECASE,
)
_PROGRAMS = re.compile(r"(?:^|[_-])(?:test|main|example|demo)s?\.")


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Best first. Raises SandboxUnavailable."""
    headers = _headers(subject)
    if not headers or not subject.ask("command -v cc || command -v gcc || command -v g++ || command -v clang"):
        return
    names = sorted({posixpath.basename(name) for name in headers})[:400]
    subject.put("/tmp/touchstone-smoke/headers.json", json.dumps(names))
    answer = subject.ask(f"python3 {subject.probe('libraries.py')} {shlex.quote(subject.workdir)}")
    try:
        found = json.loads(answer or "{}")
    except (ValueError, RecursionError):
        return
    libraries = sorted(found.get("libraries", []), key=lambda path: _library_likeness(subject, path))
    installed = sorted(found.get("headers", []), key=lambda pair: (_header_likeness(subject, pair[1]), len(pair[1])))
    if libraries:
        for folder, header in installed[:_MOST]:
            for library in libraries[:2]:
                yield _candidate(subject, folder, header, library)
    elif _header_only(subject):
        for folder, header in installed[:_MOST]:
            yield _candidate(subject, folder, header, "")
        for header in sorted(headers, key=lambda name: (_header_likeness(subject, name), name.count("/")))[:_MOST]:
            folder = "include" if header.startswith("include/") else ""
            inside = header.removeprefix("include/")
            yield _candidate(subject, posixpath.join(subject.workdir, folder).rstrip("/"), inside, "")


def _candidate(subject: Subject, folder: str, header: str, library: str) -> Candidate:
    program = "/tmp/touchstone-smoke/program"
    language = "c++" if subject.repository.language == "cpp" or not header.endswith(".h") else "c"
    source = f"{program}.{'cpp' if language == 'c++' else 'c'}"
    text = _PROGRAM.format(header=header, said=_COMPILED).replace("(void)", "()" if language == "c++" else "(void)")
    words = [language, source, program, folder, library]
    write = f"printf %s {shlex.quote(text)} > {source}"
    return Candidate(f"{write} && sh {subject.probe('compile.sh')} {shlex.join(words)}", _compiled)


def _compiled(result: ExecResult) -> Verdict:
    return "works" if result.exit_code == 0 and _COMPILED in result.output else "fails"


def _headers(subject: Subject) -> list[str]:
    return [name for name in subject.named(_HEADER) if not _apart(name)] + [
        name.removesuffix(".in") for name in subject.named(_HEADER + r"\.in") if not _apart(name)
    ]


def _header_only(subject: Subject) -> bool:
    return all(_apart(name) for name in subject.named(_SOURCE))


def _apart(name: str) -> bool:
    """Whether a file lies where no library keeps what it is made of."""
    *folders, file = name.split("/")
    return any(map(_OTHERS.fullmatch, folders)) or _PROGRAMS.search(file) is not None


def _header_likeness(subject: Subject, name: str) -> int:
    return subject.likeness(posixpath.basename(name).rpartition(".")[0])


def _library_likeness(subject: Subject, path: str) -> tuple[int, int]:
    name = posixpath.basename(path).removeprefix("lib").partition(".")[0]
    mine = plain(subject.repository.name).removeprefix("lib")
    return 0 if plain(name) == mine else 1 if mine in plain(name) else 2, 0 if ".so" in path else 1
