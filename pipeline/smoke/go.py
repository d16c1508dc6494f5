"""What to try in an image of a Go project: programs that were compiled from its module, then its packages."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from pipeline.smoke.subject import Candidate, Subject, Verdict, first_lines, programs
from sandbox.types import ExecResult

_MOST = 4
_GO = "PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin"
_LINKED = "touchstone: the package is in this program"
_PROGRAM = """package main

import _ "{package}"

func main() {{ println("{said}") }}
"""
_FOLDER = "touchstone_smoke"
_OTHERS = re.compile(r"/(?:testdata|examples?|vendor)\b")


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Best first. Raises SandboxUnavailable."""
    module = _module(subject)
    if module:
        listed = subject.ask(f"sh {subject.probe('compiled.sh')} {shlex.quote(module)} {shlex.quote(subject.workdir)}")
        compiled = sorted(first_lines(listed, 50), key=lambda path: subject.likeness(posixpath.basename(path)))
        for path in compiled[:_MOST]:
            yield from programs(shlex.quote(path))
    if not subject.ask(f"{_GO} && command -v go"):
        return
    own = [name for name in _packages(subject, "ne") if not _OTHERS.search(name)]
    for package in sorted(own, key=lambda name: ("/internal" in name, name.count("/"), name))[:_MOST]:
        text = _PROGRAM.format(package=package, said=_LINKED)
        subject.put(f"{subject.workdir}/{_FOLDER}/main.go", text)
        # The folder is gone afterwards: the project's own tests are to see the tree as it was.
        command = f"{_GO} && go run ./{_FOLDER}; code=$?; rm -r {_FOLDER}; exit $code"
        yield Candidate(command, _linked)
    for package in sorted(_packages(subject, "eq"), key=lambda name: subject.likeness(posixpath.basename(name)))[:2]:
        yield from programs(f"{_GO} && go run {shlex.quote(package)}")


def _packages(subject: Subject, comparison: str) -> list[str]:
    """Import paths of the packages whose name is (`eq`) or is not (`ne`) main.

    Without modules, a package in a folder that is no GOPATH goes by its folder; its real name is found in the GOPATH.
    """
    rule = f'{{{{if {comparison} .Name "main"}}}}{{{{.ImportPath}}}}{{{{end}}}}'
    listed = first_lines(subject.ask(f"{_GO} && go list -e -f {shlex.quote(rule)} ./... 2> /dev/null"), 200)
    return [re.sub(f"^_{re.escape(subject.workdir)}\\b", _module(subject), name) for name in listed]


def _linked(result: ExecResult) -> Verdict:
    return "works" if result.exit_code == 0 and _LINKED in result.output else "fails"


def _module(subject: Subject) -> str:
    """The import path as go.mod or Debian's packaging names it."""
    found = re.search(r"^module\s+\"?([\w.~/-]+)", subject.text("go.mod"), re.MULTILINE)
    found = found or re.search(r"^XS-Go-Import-Path:\s*([\w.~/-]+)", subject.text("debian/control"), re.MULTILINE)
    return found[1] if found else ""
