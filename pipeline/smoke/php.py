"""What to try in an image of a PHP project: its programs, its classes, its pages."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from pipeline.smoke.subject import Candidate, Subject, exited_well, programs

_MOST = 12
_OTHERS = re.compile(
    r"(?:tests?|vendor|examples?|docs?|fixtures?|benchmarks?|stubs?|node_modules|debian|migrations)(?:/.*)?",
    re.IGNORECASE,
)
_NAMESPACE = re.compile(r"^\s*(?:<\?php\s+)?namespace\s+([\w\\]+)", re.MULTILINE)
_CLASS = re.compile(r"^\s*(?:(?:abstract|final|readonly)\s+)*(?:class|interface|trait|enum)\s+(\w+)", re.MULTILINE)


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Best first. Raises SandboxUnavailable."""
    if not subject.ask("command -v php"):
        return
    for program in _programs(subject):
        yield from programs(f"cd /tmp && php {shlex.quote(posixpath.join(subject.workdir, program))}")
    if classes := _classes(subject):
        words = [word for pair in classes for word in pair]
        yield Candidate(f"php {subject.probe('classes.php')} {shlex.join(words)}", exited_well)
    for root in ("public", "web", "htdocs", "www", ""):
        if posixpath.join(root, "index.php") in subject.tree.files:
            yield Candidate(f"php {subject.probe('served.php')} {shlex.quote(root or '.')}", exited_well)
    free = [name for name in subject.named(r"(?:(?:src|lib|includes?)/)?[\w.-]+\.php") if not _OTHERS.match(name)]
    if free and not classes:
        yield Candidate(f"php {subject.probe('functions.php')} {shlex.join(free[:_MOST])}", exited_well)


def _programs(subject: Subject) -> list[str]:
    listed = subject.json("composer.json").get("bin", [])
    names = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    found = [posixpath.normpath(str(name)) for name in names] + subject.named(r"bin/[\w.-]+|artisan")
    return [name for name in dict.fromkeys(found) if re.match(r"#!.*php|<\?php", subject.text(name))][:3]


def _classes(subject: Subject) -> list[tuple[str, str]]:
    """Classes with the files that they are in, spread over the whole project, those like its name first."""
    files = [name for name in subject.named(r".*\.php") if not any(map(_OTHERS.fullmatch, name.split("/")))]
    found: list[tuple[str, str]] = []
    for file in files[:2000]:
        text = subject.text(file)
        space = _NAMESPACE.search(text)
        # One class a file: that of its name, as autoloaders expect, or the first.
        names = _CLASS.findall(text)
        wanted = posixpath.basename(file).removesuffix(".php")
        if names:
            name = wanted if wanted in names else names[0]
            found.append((f"{space[1]}\\{name}" if space else name, file))
    found.sort(key=lambda pair: subject.likeness(pair[0].rpartition("\\")[2]))
    like = [pair for pair in found if subject.likeness(pair[0].rpartition("\\")[2]) == 0][:2]
    rest = [pair for pair in found if pair not in like]
    return (like + rest[:: max(1, len(rest) // (_MOST - len(like)))])[:_MOST]
