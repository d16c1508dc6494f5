"""What is mended in a repository's own Dockerfile after it failed: one small rule at a time, by what its log says.

Dockerfiles age: releases and tools they were written for are gone or refuse old options. A rule changes only how the
project is built, never what it is. What needs to know the project is a template's business, see dockerfiles.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.building.dockerfile_text import instructions

_OLD_RELEASES = re.compile(r"(?<![\w.])(?:jessie|stretch|buster|bullseye|xenial|bionic|focal)\b")
_RELEASE = "bookworm"
# Debian packages that have another name by now, or are another's part; empty: nothing takes their place.
_RENAMED = {
    "gconf2": "",
    "libappindicator1": "libayatana-appindicator1",
    "libgl1-mesa-glx": "libgl1",
    "libjpeg62-dev": "libjpeg-dev",
    "libmysqlclient-dev": "default-libmysqlclient-dev",
    "libpng12-dev": "libpng-dev",
    "libssl1.0-dev": "libssl-dev",
    "libssl1.1": "libssl3",
    "mysql-client": "default-mysql-client",
    "netcat": "netcat-openbsd",
    "openjdk-8-jdk": "default-jdk",
    "openjdk-8-jre": "default-jre",
    "openjdk-11-jdk": "default-jdk",
    "openjdk-11-jre": "default-jre",
    "python": "python3",
    "python-dev": "python3-dev",
    "python-is-python2": "python-is-python3",
    "python-pip": "python3-pip",
    "python-setuptools": "python3-setuptools",
    "python-virtualenv": "python3-venv",
    "python3-distutils": "python3-setuptools",
    "software-properties-common": "",
}

# Installers that are downloaded and run at once -> the same tool from a package registry. `@` is the rest of a command.
_REST = r"(?:[^|&;\n\\]|\\\n)*"
_INSTALLERS = tuple(
    (re.compile(rf"\b(?:curl|wget)\b{pattern.replace('@', _REST)}"), f"{command} ")
    for pattern, command in (
        (r"@poetry@\|\s*(?:\w+=\S+\s+)*python3?\b@", "python3 -m pip install poetry"),
        (r"@/uv/@\|\s*(?:env\s+)?(?:\w+=\S+\s+)*(?:ba)?sh\b@", "python3 -m pip install uv"),
        (r"@pnpm@\|\s*(?:env\s+)?(?:\w+=\S+\s+)*(?:ba)?sh\b@", "npm install --global pnpm"),
        (r"@bun@\|\s*(?:\w+=\S+\s+)*(?:ba)?sh\b@", "npm install --global bun"),
        (r"@rustup@\|\s*(?:\w+=\S+\s+)*(?:ba)?sh\b@", "apt-get install -y cargo"),
        (r"@/setup_[\w.]+@\|\s*(?:sudo\s+)?(?:-E\s+)?(?:ba)?sh\b@", "apt-get install -y npm"),
        (r"@composer@\|\s*php\b@", "apt-get install -y composer"),
    )
)
# Programs that packages of npm download when they are installed, and how each is told not to.
_DOWNLOADS = (
    "ARG CYPRESS_INSTALL_BINARY=0",
    "ARG ELECTRON_SKIP_BINARY_DOWNLOAD=1",
    "ARG PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1",
    "ARG PUPPETEER_SKIP_CHROMIUM_DOWNLOAD=1",
    "ARG PUPPETEER_SKIP_DOWNLOAD=1",
    "ARG SENTRYCLI_SKIP_DOWNLOAD=1",
    "ARG npm_config_chromedriver_skip_download=true",
)
# The tail of every own Dockerfile takes it out again.
_REPOSITORY = (
    "RUN if command -v git > /dev/null && [ ! -e .git ]; then git init -q && git -c user.name=none "
    "-c user.email=none@example.invalid commit -q --allow-empty -m tree && git tag v0.0.1; fi"
)
_UNIX_SCRIPTS = r"RUN find . /usr/local/bin -xdev -type f -name '*.sh' -exec sed -i 's/\r$//' {} + 2> /dev/null || true"
_UPDATE = r"\1apt-get update && "

_Change = Callable[[str, re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    pattern: re.Pattern[str]
    """What the log of the failed build says."""
    change: _Change
    repeats: bool = False
    """It may be applied again, since each time another word is meant."""


def mended(dockerfile: str, log: str, done: tuple[str, ...]) -> tuple[str, str] | None:
    """Text and name of the first rule that fits the log and was not applied yet; None when none changes anything."""
    for rule in _RULES:
        if rule.name in done and not rule.repeats:
            continue
        # The last thing that was said is the nearest to what ended the build.
        for found in reversed(list(rule.pattern.finditer(log))):
            if (text := rule.change(dockerfile, found)) != dockerfile:
                return text, rule.name
    return None


def _replaced(old: str, new: str) -> _Change:
    return lambda text, _: re.sub(old, new, text)


def _argument(line: str) -> _Change:
    """A variable that RUN lines see and the image does not keep, in every stage."""

    def change(text: str, _: re.Match[str]) -> str:
        return _after_from(text, f"ARG {line}")

    return change


def _after_from(text: str, *added: str) -> str:
    if added[0] in text.splitlines():
        return text
    ends = {step.last for step in instructions(text) if step.word == "FROM"}
    lines: list[str] = []
    for number, line in enumerate(text.splitlines()):
        lines += [line, *added] if number in ends else [line]
    return "\n".join(lines) + "\n"


def _updated(text: str, _: re.Match[str]) -> str:
    """Package lists before every installation, since those of an older layer may be out of date or gone."""
    lines = text.splitlines()
    for step in instructions(text):
        if re.match(r"RUN\s+[^[]", step.text) and re.search(r"\bapt(-get)?\s(?:.*\s)?install\b", step.text):
            line = lines[step.first]
            lines[step.first] = re.sub(r"^(\s*RUN(?:\s+--\S+)*\s)(?!\s*apt-get update &&)", _UPDATE, line, flags=re.I)
    return "\n".join(lines) + "\n"


def _newer_release(text: str, _: re.Match[str]) -> str:
    lines = text.splitlines()
    for step in instructions(text):
        if step.word == "FROM":
            lines[step.first] = _OLD_RELEASES.sub(_RELEASE, lines[step.first])
    return "\n".join(lines) + "\n"


def _renamed_package(text: str, found: re.Match[str]) -> str:
    """Under its new name, without its pinned version, or left out: what it was for may still work."""
    package = found["package"]
    word = rf"(?<![\w.+/-]){re.escape(package)}(?:=[^\s\\&;]+)?(?![\w.+/=-])"
    lines = text.splitlines()
    for step in instructions(text):
        if step.word == "RUN" and re.search(r"\bapt(-get)?\s(?:.*\s)?install\b", step.text):
            for number in range(step.first, step.last + 1):
                lines[number] = re.sub(word, _RENAMED.get(package, ""), lines[number])
    return "\n".join(lines) + "\n"


def _unpinned(text: str, found: re.Match[str]) -> str:
    pinned = rf"(?<![\w.+-]){re.escape(found['package'])}=[^\s\\&;]+"
    return re.sub(pinned, found["package"], text)


def _older_setuptools(text: str, _: re.Match[str]) -> str:
    return _after_from(
        text,
        "ARG PIP_CONSTRAINT=/tmp/constraints.txt",
        "RUN mkdir -p /tmp && echo 'setuptools<81' > /tmp/constraints.txt",
    )


def _from_a_registry(text: str, _: re.Match[str]) -> str:
    for installer, command in _INSTALLERS:
        text = installer.sub(command, text)
    return text


def _without_downloads(text: str, _: re.Match[str]) -> str:
    return _after_from(text, *_DOWNLOADS)


def _without_source(text: str, found: re.Match[str]) -> str:
    """What is copied beside others, or only configures, can be absent; what is copied alone is needed."""
    absent = found["path"].strip("/")
    settings = re.search(r"(?:^|/)\.(?:env|npmrc|yarnrc|nvmrc)|lock", absent)
    lines = text.splitlines()
    for step in reversed(instructions(text)):
        words = step.text.split()
        if step.word not in ("COPY", "ADD") or "--from" in step.text or "[" in step.text:
            continue
        kept = [words[0], *(word for word in words[1:-1] if word.removeprefix("./").strip("/") != absent), words[-1]]
        if len(kept) < len(words) and sum(not word.startswith("--") for word in kept) >= 3:
            lines[step.first : step.last + 1] = [" ".join(kept)]
        elif len(kept) < len(words) and settings:
            del lines[step.first : step.last + 1]
    return "\n".join(lines) + "\n"


def _without_history(text: str, _: re.Match[str]) -> str:
    """The history is not part of a tree: what is copied from it is left out."""
    lines = text.splitlines()
    for step in reversed(instructions(text)):
        if step.word in ("COPY", "ADD") and "--from" not in step.text:
            words = step.text.split()
            kept = [word for word in words if not re.fullmatch(r"(?:\./|/)?\.git(?:modules)?/?", word)]
            if len(kept) < len(words) and len([word for word in kept[1:] if not word.startswith("--")]) >= 2:
                lines[step.first : step.last + 1] = [" ".join(kept)]
            elif len(kept) < len(words):
                del lines[step.first : step.last + 1]
    return "\n".join(lines) + "\n"


def _in_a_repository(text: str, _: re.Match[str]) -> str:
    """Where a build asks git for a version or for submodules, an empty repository answers that there are none."""
    return _after_copies(text, r"\./?\s", _REPOSITORY)


def _unix_scripts(text: str, _: re.Match[str]) -> str:
    """Scripts as they would be in a checkout on this system; the tree of the agent stays as it is."""
    return _after_copies(text, r"[^<]", _UNIX_SCRIPTS)


def _after_copies(text: str, source: str, added: str) -> str:
    """With a line behind every COPY and ADD from the context whose first source begins like `source`."""
    copies = re.compile(rf"(?:COPY|ADD)\s+(?:--(?!from)\S+\s+)*(?!--){source}", re.IGNORECASE)
    ends = {step.last for step in instructions(text) if copies.match(step.text)}
    lines = text.splitlines()
    if added in lines:
        return text
    return (
        "\n".join(one for number, line in enumerate(lines) for one in ([line, added] if number in ends else [line]))
        + "\n"
    )


def _rule(name: str, pattern: str, change: _Change, *, repeats: bool = False) -> _Rule:
    return _Rule(name, re.compile(pattern, re.IGNORECASE), change, repeats)


_RULES = (
    _rule(
        "newer_release",
        r"does not have a Release file|404\s+Not Found.{0,80}\b(?:jessie|stretch|buster|xenial|bionic)\b",
        _newer_release,
    ),
    _rule(
        "package_unpinned",
        r"E: Version '[^']+' for '(?P<package>[^']+)' was not found",
        _unpinned,
        repeats=True,
    ),
    _rule(
        "package_lists",
        r"E: Unable to locate package|E: Failed to fetch .{0,300}404|E: Unable to fetch some archives",
        _updated,
    ),
    _rule(
        "package_renamed",
        r"E: (?:Unable to locate package |Package ')(?P<package>[a-z0-9][\w.+-]+)",
        _renamed_package,
        repeats=True,
    ),
    _rule(
        "tool_of_a_registry",
        r"curl: \(\d+\)|wget: |could not resolve|unable to resolve"
        r"|\b(?:poetry|uv|pnpm|bun|cargo|npm|node|composer): (?:command )?not found",
        _from_a_registry,
    ),
    _rule("module_sums", r"missing go\.sum entry|updates to go\.mod needed", _argument("GOFLAGS=-mod=mod")),
    _rule("debian_python", r"externally-managed-environment", _argument("PIP_BREAK_SYSTEM_PACKAGES=1")),
    _rule("old_openssl", r"ERR_OSSL_EVP_UNSUPPORTED", _argument("NODE_OPTIONS=--openssl-legacy-provider")),
    _rule("old_setuptools", r"No module named 'pkg_resources'|AttributeError: .{0,40}ImpImporter", _older_setuptools),
    _rule(
        "version_of_no_history",
        r"setuptools[-_]scm was unable to detect version|hatch-vcs|Unable to determine version from git",
        _argument("SETUPTOOLS_SCM_PRETEND_VERSION=0.0.1"),
    ),
    _rule("unix_scripts", r"\.sh: not found|\r['’]?: |\\r['’]?: |\^M: bad interpreter", _unix_scripts),
    _rule("empty_repository", r"not a git repository", _in_a_repository),
    _rule("no_history", r"(?:stat |\")/?\.git(?:modules)?\b", _without_history),
    _rule(
        "absent_file",
        r"(?:stat |\"/)(?P<path>[\w./-]+)\"?:? (?:file does not exist|not found)",
        _without_source,
        repeats=True,
    ),
    _rule(
        "lock_file_of_npm",
        r"npm ci.(?: command)? can only install|cipm can only install",
        _replaced(r"\bnpm ci\b", "npm install"),
    ),
    _rule("peers_of_npm", r"\bERESOLVE\b", _argument("npm_config_legacy_peer_deps=true")),
    _rule("engines_of_yarn", r"The engine \"\w+\" is incompatible", _argument("YARN_IGNORE_ENGINES=true")),
    _rule(
        "frozen_lock_file",
        r"Your lockfile needs to be updated|ERR_PNPM_(?:OUTDATED_LOCKFILE|NO_LOCKFILE|LOCKFILE_BREAKING_CHANGE)"
        r"|frozen-lockfile",
        _replaced(r"\s--(?:frozen-lockfile|immutable)\b", ""),
    ),
    _rule(
        "options_of_poetry",
        r"option \"--no-dev\" does not exist|No such option:? --no-dev",
        _replaced(r"(poetry\s+(?:\S+\s+)*?)--no-dev\b", r"\1--only main"),
    ),
    _rule(
        "python_of_pipenv",
        r"Your Pipfile requires .?python_version|Pipfile\.lock \(\w*\) out of date",
        _replaced(r"\s--deploy\b", ""),
    ),
    # Last, since these names are often only said.
    _rule("no_downloads_of_npm", r"puppeteer|cypress|electron|playwright|chromedriver|sentry", _without_downloads),
)
