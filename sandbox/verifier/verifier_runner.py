"""Runs inside a sandbox, with the trusted interpreter only, and judges: pytest over given files, one signed verdict.

This file, verifier_guards.py and verifier_conditions.py are copied into the verifier runtime and import nothing else of
ours. Starting it and believing it is not here; see verdicts.py. Standard input: 32 bytes nonce, 8 bytes big-endian
length, JSON request.
Standard output: one line, the HMAC-SHA256 of the verdict under the nonce in hex, a space, the verdict: canonical JSON.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import hmac
import importlib
import json
import linecache
import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

NONCE_BYTES = 32
MESSAGE_CHARACTERS = 500
PR_SET_DUMPABLE = 4
# Parts of pytest that no verifier needs; each costs time, and one answers signals that programs under test may send.
UNUSED = (
    *("cacheprovider", "doctest", "faulthandler", "junitxml", "legacypath", "logging", "nose"),
    *("pastebin", "setuponly", "setupplan", "stepwise"),
)
SEVERITY = ("passed", "xpassed", "xfailed", "skipped", "failed", "error")
# The packages beside this file: with -S the interpreter looks nowhere but in its own standard library.
sys.path.append(str(Path(__file__).resolve().parent / "site"))

# Pytest searches installed packages for plugins with this module, which takes long to load. There are none to be found.
no_packages = ModuleType("importlib.metadata")
no_packages.__dict__.update(Distribution=object, PackageNotFoundError=ImportError, distributions=tuple)
sys.modules[no_packages.__name__] = vars(importlib)["metadata"] = no_packages

import pytest  # noqa: E402
from _pytest import runner as pytest_runner  # noqa: E402
from _pytest._io.saferepr import saferepr  # noqa: E402
from _pytest.assertion import util as pytest_comparison  # noqa: E402

from sandbox.verifier.verifier_conditions import arrange, move_clock  # noqa: E402
from sandbox.verifier.verifier_guards import (  # noqa: E402
    Box,
    bounded_memory,
    guard_open,
    is_large,
    release_memory,
    show_environment,
    starts_programs,
)

# Tests get the real one.
del sys.modules[no_packages.__name__], vars(importlib)["metadata"]


class Recorder:
    """Collects what became of each test, as a plugin object: no report file, no parsed text."""

    def __init__(self) -> None:
        self.expected: list[str] = []
        self.outcomes: dict[str, tuple[str, str]] = {}

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

    def is_complete(self, exit_code: int) -> bool:
        """Whether every collected test ran to its end: a test may end all of pytest, with any exit code.

        That code must agree with what was heard, and one id must stand for one test.
        """
        sound = all(SEVERITY.index(outcome) < SEVERITY.index("failed") for outcome, _ in self.outcomes.values())
        once = len(self.expected) == len(set(self.expected))
        return bool(self.expected) and once and set(self.expected) <= set(self.outcomes) and sound == (exit_code == 0)

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


class Precautions:
    """Keeps the tests from what they judge and what they judge from the tests, as a plugin object."""

    def __init__(self, private: Path, environment: Mapping[str, str], conditions: Mapping[str, Any]) -> None:
        self._private = private
        self._environment = environment
        self._conditions = conditions
        self._box = Box(private / "tmp")

    @pytest.fixture
    def box(self) -> Box:
        """Reads files of the judged state safely."""
        if not self._box.is_possible():
            pytest.exit("this kernel, or the engine's seccomp profile, does not allow openat2", returncode=3)
        return self._box

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Plugins are loaded and options read: from here on the environment is that of the programs under test."""
        show_environment(self._environment)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Pytest takes a folder above the tests for a package when it holds an `__init__.py`, and imports that."""
        return None if collection_path.is_relative_to(self._private / "tests") else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests that only read come first: then no program of the judged state has run."""
        arrange(items, self._conditions["order"], self._conditions["seed"])
        items.sort(key=lambda item: any(map(starts_programs, _functions(item))))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """A program under test may search for the tests and print what they expect: they are in memory only."""
        for path in self._private.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            # No time: the entry is kept although the file is gone. Messages quote its lines.
            linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
        shutil.rmtree(self._private / "tests")
        (self._private / "pytest.ini").unlink()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_pyfunc_call(self) -> Iterator[None]:
        """The bound holds for the test alone; reporting its failure needs memory too."""
        with bounded_memory():
            yield

    def pytest_runtest_logfinish(self) -> None:
        """What a failed test had read stays reachable for a debugger, which nobody starts here."""
        for name in ("last_type", "last_value", "last_traceback"):
            vars(sys).pop(name, None)
        release_memory()


def _functions(item: pytest.Item) -> list[object]:
    """The function of a test and of the fixtures that its own file gives it."""
    function = getattr(item, "function", None)
    if not isinstance(function, FunctionType):
        return []
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
    used = [definition.func for definitions in fixtures for definition in definitions]
    return [function, *(one for one in used if getattr(one, "__module__", None) == function.__module__)]


def main() -> int:
    """Judge once."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    # A first process hears only the signals that it handles, and Python handles this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    nonce = _read(NONCE_BYTES)
    request = json.loads(_read(int.from_bytes(_read(8), "big")))
    # The library behind it reads its configuration now, from the file that the launcher names.
    signature = hmac.new(nonce, digestmod=hashlib.sha256)
    verdict_out = _take_standard_streams()
    own = {name: os.environ[name] for name in ("PATH", "HOSTNAME") if name in os.environ}  # noqa: TID251
    own["HOME"] = _home()
    started = time.monotonic()
    recorder = Recorder()
    exit_code = _run_pytest(request, own | request["environment"], recorder)
    verdict = {
        "complete": recorder.is_complete(exit_code),
        "exit_code": exit_code,
        "seconds": time.monotonic() - started,
        "tests": recorder.tests(),
    }
    body = json.dumps(verdict, sort_keys=True, separators=(",", ":")).encode()
    signature.update(body)
    with os.fdopen(verdict_out, "wb") as out:
        out.write(signature.hexdigest().encode() + b" " + body + b"\n")
    return 0


def _home() -> str:
    """What an engine would have found, had it been left to read accounts that an agent may have written."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    except KeyError:
        return "/"


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


def _run_pytest(request: dict[str, Any], environment: Mapping[str, str], recorder: Recorder) -> int:
    private = Path(tempfile.mkdtemp(dir=request["scratch"]))
    tests = private / "tests"
    _write_tests(tests, request["files"])
    settings = private / "pytest.ini"
    settings.write_text("[pytest]\n")
    tempfile.tempdir = str(private)
    # Pytest takes options and plugins from what it finds here.
    os.environ.clear()  # noqa: TID251
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # noqa: TID251
    # Otherwise the name of the running test stands in the environment of every program under test.
    pytest_runner._update_current_test_var = lambda item, when: None
    # Typed by another release of pytest than the one that runs here.
    comparison: Any = pytest_comparison
    comparison.assertrepr_compare = _comparison(comparison.assertrepr_compare)
    _enter(request["workdir"])
    guard_open((private, Path(__file__).parent))
    conditions = request["conditions"]
    move_clock(conditions["clock_offset_s"])
    precautions = Precautions(private, environment, conditions)
    return int(pytest.main(_arguments(private, tests, settings), [recorder, precautions]))


def _comparison(thorough: Callable[..., list[str] | None]) -> Callable[..., list[str] | None]:
    """How large values differ takes pytest minutes to say; an agent could leave one to outlast every limit."""

    def compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
        if is_large(left) or is_large(right):
            return [f"{saferepr(left)} {op} {saferepr(right)}", "(too large to compare here)"]
        return thorough(config=config, op=op, left=left, right=right)

    return compare


def _write_tests(folder: Path, files: dict[str, str]) -> None:
    """Raises ValueError when two tests of a file share a name: the later one would silently replace the other."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        try:
            tree = ast.parse(text)
        except SyntaxError:
            # pytest says it better.
            continue
        bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
        for body in bodies:
            names = Counter(node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))
            twice = [name for name, count in names.items() if count > 1]
            if twice:
                raise ValueError(f"{path.name} defines {', '.join(twice)} more than once")


def _arguments(private: Path, tests: Path, settings: Path) -> list[str]:
    return [
        f"-c{settings}",
        f"--rootdir={tests}",
        f"--confcutdir={tests}",
        f"--basetemp={private / 'tmp'}",
        "--noconftest",
        "--import-mode=importlib",
        "--color=no",
        "--tb=short",
        "-q",
        # What programs under test print without end must fill no file of ours.
        "--capture=no",
        *(f"-pno:{name}" for name in UNUSED),
        "-oaddopts=",
        "-oxfail_strict=true",
        "-Werror::pytest.PytestReturnNotNoneWarning",
        "-Werror::pytest.PytestCollectionWarning",
        str(tests),
    ]


def _enter(workdir: str) -> None:
    """The image's working directory; a program may have removed it, which is for the tests to judge."""
    try:
        os.chdir(workdir)
    except OSError:
        os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
