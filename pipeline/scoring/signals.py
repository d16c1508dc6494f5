"""Which file of a repository says something about how it is built, by names alone. What they say is not here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from pipeline.types import Language

Signal = Literal["build", "sources", "documentation", "tests", "automation", "scripts"]

EXTENSIONS: dict[Language, tuple[str, ...]] = {
    "go": (".go",),
    "cpp": (".cc", ".cpp", ".cxx", ".hpp", ".h"),
    "c": (".c", ".h"),
    "html": (".html", ".htm", ".css", ".js"),
    "java": (".java",),
    "javascript": (".js", ".mjs", ".cjs"),
    "php": (".php",),
    "python": (".py",),
}

BUILD_FILES: dict[str, re.Pattern[str]] = {
    # File name -> what a file that is not a mere shell holds.
    "makefile": re.compile(r"^[\w.%/$()-]+\s*:(?!=)", re.MULTILINE),
    "gnumakefile": re.compile(r"^[\w.%/$()-]+\s*:(?!=)", re.MULTILINE),
    "cmakelists.txt": re.compile(r"\badd_(executable|library)\b", re.IGNORECASE),
    "configure.ac": re.compile(r"\bAC_OUTPUT\b"),
    "meson.build": re.compile(r"\b(executable|library)\s*\("),
    "go.mod": re.compile(r"^module\s", re.MULTILINE),
    "package.json": re.compile(r'"(scripts|dependencies|main|bin|files)"'),
    "pyproject.toml": re.compile(r"^\[(project|build-system|tool\.poetry)\]", re.MULTILINE),
    "setup.py": re.compile(r"\bsetup\s*\("),
    "composer.json": re.compile(r'"(require|autoload)"'),
    "pom.xml": re.compile(r"<artifactId>"),
    "build.xml": re.compile(r"<target\b"),
    "build.gradle": re.compile(r"\b(plugins|apply plugin|dependencies)\b"),
    "build.gradle.kts": re.compile(r"\b(plugins|dependencies)\b"),
    "rules": re.compile(r"\bdh\b|^build\b", re.MULTILINE),
}

LOCK_FILES = frozenset(
    {"go.sum", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "composer.lock", "poetry.lock", "uv.lock"}
)

CI = re.compile(r"^(\.github/workflows/.+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|\.circleci/config\.yml|Jenkinsfile)$")
DOCKERFILE = re.compile(r"(^|/)(Dockerfile(\.[\w-]+)?|[\w-]+\.Dockerfile)$", re.IGNORECASE)
TEST = re.compile(r"(^|/)(tests?|spec|__tests__|testdata)/|(_test\.go|Tests?\.(java|php)|\.(test|spec)\.[cm]?js)$")
DOCUMENT = re.compile(r"(^|/)(readme|install|usage|building)[^/]*$|\.(md|rst|markdown)$", re.IGNORECASE)


def signals_of(name: str, language: Language) -> Iterator[Signal]:
    """What a file with this name says something about, judged by the name alone."""
    path = PurePosixPath(name)
    base = path.name.lower()
    if base in LOCK_FILES or (base in BUILD_FILES and (base != "rules" or name == "debian/rules")):
        yield "build"
    if DOCKERFILE.search(name) or CI.search(name):
        yield "automation"
    if TEST.search(name) or base.startswith("test_"):
        yield "tests"
    elif path.suffix.lower() in EXTENSIONS[language]:
        yield "sources"
    if DOCUMENT.search(name):
        yield "documentation"
    if path.suffix in (".sh", ".bash"):
        yield "scripts"
