"""The project's own tests, by the command that its people would type.

A suite that cannot be run, since its runner or what only tests need is not there, or that does not end is no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.smoke.subject import Subject
from sandbox.types import ExecResult

_COPY = "rm -rf /tmp/touchstone-tests && cp -a . /tmp/touchstone-tests && cd /tmp/touchstone-tests"
_BUILT = "touchstone: built, now its tests"
"""What a command writes between building and testing: a failure before it says nothing about the tests."""


@dataclass(frozen=True)
class Verdict:
    """What became of the tests."""

    passed: bool | None
    command: str | None
    log: str = ""


@dataclass(frozen=True)
class _Suite:
    command: str
    runnable: str
    """Shell that succeeds where the runner is there."""
    ran: str
    """Matches the output of a run in which at least one test ran."""
    failed: str
    """Matches the output of a run in which a test failed."""
    built_first: bool = False


NOT_RUN = Verdict(None, None)

# What a test needs and the project itself does not: its absence is no failure of the project.
_LACKING = re.compile(
    r"fixture '\w+' not found|unrecognized arguments: |error: unknown option|command not found|: not found\b"
    r"|No module named|ModuleNotFoundError|Cannot find (?:module|package)|ERR_MODULE_NOT_FOUND"
    r"|no required module provides package"
    r"|cannot find package|\[setup failed\]|No rule to make target|Class \"?PHPUnit|missing go\.sum entry"
    r"|offline mode|Could not resolve dependencies|No such file or directory: '?(?:cmake|ctest)",
    re.IGNORECASE,
)


def run(subject: Subject, timeout_s: int) -> Verdict:
    """Run the first suite that can be run. Raises SandboxUnavailable."""
    for suite in _suites(subject):
        if not subject.ask(f"({suite.runnable}) > /dev/null 2>&1 && echo there"):
            continue
        result = subject.execute(f"export CI=1; ({suite.command}) < /dev/null 2>&1", timeout_s)
        passed, why = _judged(suite, result)
        return Verdict(passed, suite.command, f"{result.output}\n[{why}]")
    return NOT_RUN


def _judged(suite: _Suite, result: ExecResult) -> tuple[bool | None, str]:
    text = result.output
    if result.timed_out or result.exit_code is None:
        return None, "it did not end within its time"
    if result.oom_killed:
        return None, "it took more memory than a sandbox has"
    if suite.built_first and _BUILT not in text:
        return None, "it could not be built"
    if result.exit_code == 0:
        if re.search(suite.ran, text, re.MULTILINE):
            return True, "passed"
        return None, "no test ran"
    if _LACKING.search(text):
        return None, "something that only the tests need is not there"
    if re.search(suite.failed, text, re.MULTILINE):
        return False, f"exit code {result.exit_code}"
    return None, f"exit code {result.exit_code}, and no test is said to have failed"


def _suites(subject: Subject) -> Iterator[_Suite]:
    finders = {
        "python": _python,
        "javascript": _node,
        "html": _node,
        "php": _php,
        "java": _java,
        "go": _go,
        "c": _native,
        "cpp": _native,
    }
    yield from finders[subject.repository.language](subject)


def _python(subject: Subject) -> Iterator[_Suite]:
    if not subject.named(r"(?:.*/)?(?:test_[^/]*|[^/]*_tests?|tests?)\.py"):
        return
    for python in ("python3", "python"):
        yield _Suite(
            f"{python} -m pytest -q -p no:cacheprovider",
            f"{python} -m pytest --version",
            r"^(?:.* )?\d+ passed\b",
            r"^(?:.* )?\d+ failed\b",
        )
    yield _Suite(
        "python3 -m unittest discover -q", "python3 -c 'import unittest'", r"^Ran [1-9]\d* test", r"^FAILED \("
    )


def _node(subject: Subject) -> Iterator[_Suite]:
    scripts = subject.json("package.json").get("scripts")
    script = str(scripts.get("test", "")) if isinstance(scripts, dict) else ""
    words = [word for word in script.split() if "=" not in word and word not in ("npx", "cross-env", "c8", "nyc")]
    if not words or "no test specified" in script:
        return
    runner = words[0]
    if runner in ("npm", "yarn", "pnpm", "npm-run-all", "run-s", "run-p"):
        runner = "npm"
    yield _Suite(
        "npm test --silent",
        f"command -v npm && PATH=$PWD/node_modules/.bin:$PATH && command -v '{runner}'",
        r"\b[1-9]\d* (?:passing|passed|tests?|assertions?|specs?)\b|^# (?:pass|ok)\b|^ok \d+|\bpass(?:ed)?\b|✔|✓",
        r"\b[1-9]\d* (?:failing|failed|failures?)\b|^not ok \d+|AssertionError|✖|✗|^# fail [1-9]",
    )


def _php(subject: Subject) -> Iterator[_Suite]:
    if subject.named(r"phpunit\.xml(?:\.dist)?|phpunit\.dist\.xml"):
        for runner in ("vendor/bin/phpunit", "phpunit"):
            yield _Suite(
                runner, f"test -x {runner} || command -v {runner}", r"^OK\b|Tests: [1-9]", r"^(?:FAILURES|ERRORS)!"
            )


def _java(subject: Subject) -> Iterator[_Suite]:
    if "pom.xml" in subject.tree.files:
        yield _Suite(
            f"{_COPY} && mvn -o -B test",
            "command -v mvn",
            r"Tests run: [1-9]",
            r"Tests run:.*(?:Failures|Errors): [1-9]",
        )
    if subject.named(r"build\.gradle(?:\.kts)?"):
        yield _Suite(
            f"{_COPY} && gradle --offline test", "command -v gradle", r"BUILD SUCCESSFUL", r"There were failing tests"
        )


def _go(subject: Subject) -> Iterator[_Suite]:
    if subject.named(r".*_test\.go"):
        go = "PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin"
        yield _Suite(f"{go}; go test ./...", f"{go}; command -v go", r"^ok\s", r"^(?:--- )?FAIL\b")


def _native(subject: Subject) -> Iterator[_Suite]:
    listed = "\n".join(subject.text(name) for name in subject.named(r"(?:[\w.-]+/)?CMakeLists\.txt")[:20])
    if re.search(r"\benable_testing\s*\(|include\s*\(\s*CTest", listed, re.IGNORECASE):
        build = "cmake -S . -B build-touchstone -DBUILD_TESTING=ON && cmake --build build-touchstone --parallel 2"
        yield _Suite(
            f"{_COPY} && {build} && echo '{_BUILT}' && ctest --test-dir build-touchstone --output-on-failure",
            "command -v ctest && (command -v cc || command -v c++)",
            r"tests passed.* out of [1-9]",
            r"tests? failed out of",
            built_first=True,
        )
    target = _make_target(subject)
    if target:
        prepare, tools = "", ""
        if subject.named(r"configure(?:\.ac|\.in)?"):
            prepare = "{ [ -f configure ] || autoreconf -i; } && sh ./configure && "
            tools = "([ -f configure ] || command -v autoreconf) && "
        yield _Suite(
            f"{_COPY} && {prepare}make -j2 && echo '{_BUILT}' && make {target}",
            f"{tools}command -v make && (command -v cc || command -v c++)",
            # A target that only builds, or that is empty, is no test.
            rf"(?is){_BUILT}.*(?:\bpass|\bok\b|success|all tests|[1-9]\d* tests)",
            rf"(?is){_BUILT}.*(?:fail|error|assert|not ok)",
            built_first=True,
        )


def _make_target(subject: Subject) -> str:
    """`check` or `test`, where the Makefile has such a target."""
    if "Makefile.am" in subject.tree.files:
        return "check"
    for name in ("Makefile", "makefile", "GNUmakefile"):
        for target in ("check", "test"):
            if re.search(rf"^{target}\s*:", subject.text(name), re.MULTILINE):
                return target
    return ""
