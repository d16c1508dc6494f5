"""What to try in an image of a Java project: its programs, then whether the virtual machine loads its classes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator

from pipeline.smoke.subject import Candidate, Subject, Verdict, programs
from sandbox.types import ExecResult

_MOST = 6
_TESTS = re.compile(r"(?:.*/)?(?:tests?|it|examples?|samples?|benchmarks?|jmh|src/test\w*|package-info\.java)(?:/.*)?")
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_MAIN = re.compile(r"\bstatic\s+(?:final\s+)?void\s+main\s*\(")
_NO_MAIN = re.compile(r"Main method not found in class |No main method|main method not found", re.IGNORECASE)


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Best first. Raises SandboxUnavailable."""
    sources = _sources(subject)
    if not sources or not subject.ask("command -v java"):
        return
    subject.put("/tmp/touchstone-smoke/classes.json", json.dumps(sources))
    answer = subject.ask(f"python3 {subject.probe('jars.py')} {shlex.quote(subject.workdir)}")
    try:
        found = json.loads(answer or "{}")
    except (ValueError, RecursionError):
        return
    for jar in found.get("programs", [])[:2]:
        yield from programs(f"java -jar {shlex.quote(jar)}")
    there = [name for name in sources if name in set(found.get("classes", []))]
    path = shlex.quote(":".join(found.get("path", []))) + '"${CLASSPATH:+:$CLASSPATH}"'
    for name in [name for name in there if sources[name]][:3]:
        yield from programs(f"java -cp {path} {name}")
    plain = [name for name in there if not sources[name]]
    chosen = plain[:: max(1, len(plain) // _MOST)][:_MOST]
    if chosen:
        # A class without a main method is loaded, with all it inherits and mentions in public, before that is missed.
        loop = f'for class in {shlex.join(chosen)}; do java -cp {path} "$class" 2>&1 | head -n 4; done'
        yield Candidate(loop, _loaded(len(chosen)))


def _loaded(number: int) -> Callable[[ExecResult], Verdict]:
    def verdict(result: ExecResult) -> Verdict:
        return "works" if len(_NO_MAIN.findall(result.output)) * 2 >= number else "fails"

    return verdict


def _sources(subject: Subject) -> dict[str, bool]:
    """Classes by their sources, those of the project's name first, and whether each has a main method."""
    found = {}
    for file in subject.named(r".*\.java")[:3000]:
        if _TESTS.fullmatch(file) or file.endswith("module-info.java"):
            continue
        text = subject.text(file)
        package = _PACKAGE.search(text)
        name = file.rpartition("/")[2].removesuffix(".java")
        found[f"{package[1]}.{name}" if package else name] = _MAIN.search(text) is not None
    return dict(sorted(found.items(), key=lambda one: subject.likeness(one[0].rpartition(".")[2])))
