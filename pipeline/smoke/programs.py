"""Programs of the project whatever its language: what its build files and its Dockerfile name, found in the image.

A program counts when it is not from a package of the system and either was compiled in the tree, or bears the name of
the project. In languages whose programs are compiled it also counts when a build file or a Dockerfile gives that name
to something, or (C and C++) when it is newer than the copying of the tree; elsewhere such names are those of tools.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator

from pipeline.smoke.subject import Candidate, Subject, first_lines, programs
from sandbox.building.dockerfile_text import instructions

_MOST = 6
_NATIVE = ("c", "cpp")
_COMPILED = ("c", "cpp", "go")
_INTERPRETER = re.compile(r"(?:.*/)?(?:python[\d.]*|node|php)")
_COMMON = re.compile(
    r"all|(?:un)?install|(?:dist)?clean|tests?|check|build|dist|help|run|libs?|docs?|main|bin|default|sh|bash|python3?"
    r"|node|npm|java|php|go|make|env|release|debug|static|shared|app|server|format|lint|coverage|pip[\d.]*|wheel"
    r"|c?cmake|ctest|cpack|meson|ninja|conan|pytest|tini|dumb-init|gosu|su-exec|(?:docker-)?entrypoint(?:\.sh)?",
    re.IGNORECASE,
)
_BUILD_FILES = (
    (
        r"(?:.*/)?CMakeLists\.txt",
        (r"add_executable\s*\(\s*([\w.+-]+)", r"OUTPUT_NAME\s+\"?([\w.+-]+)", r"project\s*\(\s*([\w.+-]+)"),
    ),
    (
        r"(?:.*/)?(?:GNUm|[mM])akefile(?:\.in|\.am)?",
        (
            r"^(?:bin|sbin|libexec|games)_PROGRAMS\s*\+?=\s*(.+)",
            r"^(?:\w*(?:PROG|PROGRAM|TARGET|BIN|BINARY|NAME|EXE|EXEC|EXECUTABLE|OUT|OUTPUT|APP)S?)\s*[:?]?=\s*(.+)",
            r"^([\w.+/-]+)\s*:(?!=)",
            r"\s-o\s+([\w.+/-]+)",
        ),
    ),
    (r"(?:.*/)?meson\.build", (r"executable\s*\(\s*'([\w.+-]+)'", r"^project\s*\(\s*'([\w.+-]+)'")),
    (r"configure\.(?:ac|in)", (r"AC_INIT\s*\(\s*\[?([\w.+-]+)",)),
    (r"(?:.*/)?(?:Dockerfile|Containerfile)[\w.-]*", (r"\s-o\s+([\w.+/-]+)",)),
)
_SCRIPTS = re.compile(r"(?:bin/)?([\w.+-]+)")


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Best first. Raises SandboxUnavailable."""
    names = _names(subject)
    newer = "newer" if subject.repository.language in _NATIVE else "named"
    listed = subject.ask(
        f"sh {subject.probe('programs.sh')} {shlex.quote(subject.workdir)} {newer} {shlex.join(sorted(names))}"
    )
    found = [path for path in first_lines(listed, 200) if _counts(subject, path)]
    found.sort(key=lambda path: (subject.likeness(posixpath.basename(path)), path))
    for path in found[:_MOST]:
        yield from programs(shlex.quote(path))
    for command in _started_by_dockerfile(subject):
        yield from programs(command)[-1:]


def _counts(subject: Subject, path: str) -> bool:
    """A file of the tree that was cloned counts when it is a program by its place and the project's by its name."""
    if _COMMON.fullmatch(posixpath.basename(path)):
        return False
    inside = path.removeprefix(f"{subject.workdir}/")
    if inside == path or inside not in subject.tree.files:
        return True
    script = _SCRIPTS.fullmatch(inside)
    return script is not None and (subject.likeness(script[1]) == 0 or inside in _dockerfile_words(subject))


def _names(subject: Subject) -> set[str]:
    """Names of programs, without those that every other project has."""
    names = {subject.repository.name, subject.repository.name.removesuffix("-cli")}
    compiled = subject.repository.language in _COMPILED
    if compiled:
        names |= _dockerfile_words(subject)
    for files, patterns in _BUILD_FILES if compiled else ():
        for file in subject.named(files)[:40]:
            text = subject.text(file).replace("\\\n", " ")
            for pattern in patterns:
                for match in re.findall(pattern, text, re.MULTILINE | re.IGNORECASE):
                    names.update(posixpath.basename(word) for word in match.split())
    return {name for name in names if re.fullmatch(r"[\w.+][\w.+-]*", name) and not _COMMON.fullmatch(name)}


def _dockerfile_words(subject: Subject) -> set[str]:
    words = {word for command in _commands(subject) for word in command}
    return {posixpath.basename(word) for word in words} | {word.removeprefix("./") for word in words}


def _started_by_dockerfile(subject: Subject) -> Iterator[str]:
    """What the Dockerfile starts, where an interpreter gets a file of the tree."""
    for command in _commands(subject):
        files = [word.removeprefix("./").removeprefix("/app/") for word in command[1:]]
        if _INTERPRETER.fullmatch(command[0]) and any(file in subject.tree.files for file in files):
            yield shlex.join([command[0], *(word.removeprefix("/app/") for word in command[1:])])


def _commands(subject: Subject) -> list[list[str]]:
    """ENTRYPOINT with CMD of the last stage of each Dockerfile, as words; several commands in one are left out."""
    found = []
    for file in subject.named(r"(?:[\w.-]+/)?(?:Dockerfile|Containerfile)[\w.-]*")[:4]:
        parts: dict[str, list[str]] = {}
        for step in instructions(subject.text(file)):
            if step.word == "FROM":
                parts = {}
            elif step.word in ("ENTRYPOINT", "CMD"):
                parts[step.word] = _words(step.text.split(None, 1)[1] if len(step.text.split(None, 1)) > 1 else "")
        if command := parts.get("ENTRYPOINT", []) + parts.get("CMD", []):
            found.append(command)
    return found


def _words(text: str) -> list[str]:
    text = text.strip()
    try:
        words = json.loads(text) if text.startswith("[") else shlex.split(text)
    except (ValueError, RecursionError):
        return []
    if not all(isinstance(word, str) for word in words) or {"&&", "||", ";", "|"}.intersection(words):
        return []
    return [str(word) for word in words]
