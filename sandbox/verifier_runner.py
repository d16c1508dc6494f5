"""Runs inside a sandbox, with the trusted interpreter only, and judges: pytest over given files, one signed verdict.

This file is copied into the verifier runtime and imports nothing of ours. Starting it and believing it is not here; see
judging.py. Standard input: 32 bytes nonce, 8 bytes big-endian length, JSON request. Standard output: one line, the
HMAC-SHA256 of the verdict under the nonce in hex, a space, the verdict as canonical JSON.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import os
import sys
import tempfile
import time
from pathlib import Path

NONCE_BYTES = 32
MESSAGE_CHARACTERS = 500
PR_SET_DUMPABLE = 4
# This is a program of its own, and its environment is what programs under test inherit.
environment_of_children = os.environ  # noqa: TID251
SEVERITY = ("passed", "xpassed", "xfailed", "skipped", "failed", "error")
# The packages beside this file: with -S the interpreter looks nowhere but in its own standard library.
sys.path.append(str(Path(__file__).resolve().parent / "site"))

import pytest  # noqa: E402
from _pytest import runner as pytest_runner  # noqa: E402


class Recorder:
    """Collects what became of each test, as a plugin object: no report file, no parsed text."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_configure(self) -> None:
        """Plugins are loaded: programs under test must not find this setting in their environment."""
        environment_of_children.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember every test, so that one that never ran is seen."""
        self.expected = [item.nodeid for item in session.items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that could not be imported, or that skipped itself."""
        if report.outcome != "passed":
            self._record(report.nodeid, "error" if report.failed else "skipped", _message(report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One of the three phases of one test."""
        expected_to_fail = hasattr(report, "wasxfail")
        if report.passed:
            if report.when == "call":
                self._record(report.nodeid, "xpassed" if expected_to_fail else "passed", "")
        elif report.skipped:
            self._record(report.nodeid, "xfailed" if expected_to_fail else "skipped", _message(report))
        else:
            self._record(report.nodeid, "failed" if report.when == "call" else "error", _message(report))

    def is_complete(self) -> bool:
        """Whether every collected test ran to its end: a test may end all of pytest, with any exit code."""
        return bool(self.expected) and set(self.expected) <= set(self.outcomes)

    def tests(self) -> list[list[str]]:
        """Id, outcome and message of everything that was heard of."""
        return [[test_id, outcome, message] for test_id, (outcome, message) in self.outcomes.items()]

    def _record(self, test_id: str, outcome: str, message: str) -> None:
        known = self.outcomes.get(test_id)
        if known is None or SEVERITY.index(outcome) > SEVERITY.index(known[0]):
            self.outcomes[test_id] = (outcome, message[:MESSAGE_CHARACTERS])


def _message(report: pytest.CollectReport | pytest.TestReport) -> str:
    reason = report.longrepr
    if isinstance(reason, tuple):
        return str(reason[2])
    crash = getattr(reason, "reprcrash", None)
    return str(crash.message if crash is not None else reason)


def main() -> int:
    """Judge once."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    nonce = _read(NONCE_BYTES)
    request = json.loads(_read(int.from_bytes(_read(8), "big")))
    verdict_out = _take_standard_streams()
    _set_environment(request["environment"])
    started = time.monotonic()
    recorder = Recorder()
    exit_code = _run_pytest(request["files"], Path(request["scratch"]), request["workdir"], recorder)
    verdict = {
        "complete": recorder.is_complete(),
        "exit_code": exit_code,
        "seconds": time.monotonic() - started,
        "tests": recorder.tests(),
    }
    body = json.dumps(verdict, sort_keys=True, separators=(",", ":")).encode()
    line = hmac.new(nonce, body, hashlib.sha256).hexdigest().encode() + b" " + body + b"\n"
    with os.fdopen(verdict_out, "wb") as out:
        out.write(line)
    return 0


def _read(count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = os.read(0, count - len(parts))
        if not part:
            raise EOFError("the request is incomplete")
        parts += part
    return parts


def _take_standard_streams() -> int:
    """Keep standard output for the verdict alone, on a descriptor that no child inherits; tests print into the log."""
    verdict_out = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return verdict_out


def _set_environment(environment: dict[str, str]) -> None:
    """Programs under test get the environment of the image, nothing of what started this interpreter."""
    own = {
        name: environment_of_children[name] for name in ("HOME", "PATH", "HOSTNAME") if name in environment_of_children
    }
    environment_of_children.clear()
    environment_of_children.update(own | environment)


def _run_pytest(files: dict[str, str], scratch: Path, workdir: str, recorder: Recorder) -> int:
    private = Path(tempfile.mkdtemp(dir=scratch))
    tests = private / "tests"
    for name, text in files.items():
        path = tests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    settings = private / "pytest.ini"
    settings.write_text("[pytest]\n")
    tempfile.tempdir = str(private)
    environment_of_children["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Otherwise the name of the running test stands in the environment of every program under test.
    pytest_runner._update_current_test_var = lambda item, when: None
    _enter(workdir)
    return int(
        pytest.main(
            [
                "-c",
                str(settings),
                f"--rootdir={tests}",
                f"--confcutdir={tests}",
                f"--basetemp={private / 'tmp'}",
                "--noconftest",
                "--import-mode=importlib",
                "--color=no",
                "--tb=short",
                "-q",
                "-p",
                "no:cacheprovider",
                "-o",
                "addopts=",
                "-o",
                "xfail_strict=true",
                "-W",
                "error::pytest.PytestReturnNotNoneWarning",
                "-W",
                "error::pytest.PytestCollectionWarning",
                str(tests),
            ],
            plugins=[recorder],
        )
    )


def _enter(workdir: str) -> None:
    """The image's working directory; a program may have removed it, which is for the tests to judge."""
    try:
        os.chdir(workdir)
    except OSError:
        os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
