"""What the text of a verifier alone gives away: imports, programs, and the order of reading and running."""

from __future__ import annotations

import pytest

from pipeline.admission.lint import lint_gate
from pipeline.types import Verifier, VerifierFile

HEAD = "import os, subprocess, sys\nfrom pathlib import Path\nOUT = Path('/work/out')\n"
RUN = "subprocess.run(['/work/tool'], capture_output=True, timeout=9)"


def fault(body: str, arguments: str = "", before: str = "") -> str:
    """What the lint says about one test; empty when nothing."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    text = f"{HEAD}{before}def test_it({arguments}):\n{lines}    assert OUT\n"
    gate = lint_gate(Verifier(files=(VerifierFile(path="test_it.py", content=text),)))
    return "" if gate.passed else gate.evidence


@pytest.mark.parametrize(
    "body",
    [
        f"assert OUT.read_text() == 'x'\nassert {RUN}.stdout == b'x'",
        f"{RUN}\nassert (tmp_path / 'out').read_text() == 'x'",
        f"made = tmp_path / 'out'\n{RUN}\nassert made.exists() and box.read(made) == b'x'",
        "assert subprocess.run(['/work/cat2', 'x'], timeout=5).returncode == 0",
    ],
    ids=["reads first", "reads what was made for it", "reads it by a name", "a program of the task"],
)
def test_a_careful_verifier_is_let_through(body: str) -> None:
    assert fault(body, "tmp_path, box") == ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"{RUN}\nassert OUT.read_text() == 'x'", "after it ran a program"),
        (f"{RUN}\nassert box.text('/work/out') == 'x'", "after it ran a program"),
        (f"{RUN}\nassert os.path.exists('/work/out')", "after it ran a program"),
        ("run_it()\nassert read_it() == 'x'", "after it ran a program"),
        ("subprocess.run(['/work/tool'])", "without a timeout"),
        ("subprocess.run('/work/tool | wc', shell=True, timeout=5)", "runs a shell"),
        ("subprocess.getoutput('/work/tool')", "runs a shell"),
        ("subprocess.run(['cat', '/work/out'], timeout=5)", "runs cat"),
        ("subprocess.run(('/usr/bin/wc', '/work/out'), timeout=5)", "runs wc"),
        ("os.system('/work/tool')", "calls os.system"),
        ("os.execv('/work/tool', [])", "calls os.execv"),
        ("sys.path.insert(0, '/work')", "uses sys.path"),
        ("import work", "imports work"),
        ("import multiprocessing", "imports multiprocessing"),
        ("__import__('work')", "calls __import__"),
    ],
)
def test_a_careless_verifier_is_refused_with_its_reason(body: str, said: str) -> None:
    helpers = f"def run_it():\n    {RUN}\ndef read_it():\n    return OUT.read_text()\n"
    assert said in fault(body, "box", helpers)


def test_a_program_that_runs_while_the_verifier_is_imported_is_refused() -> None:
    assert "while it is imported" in fault("pass", before=f"SEEN = {RUN}\n")


@pytest.mark.parametrize("module", ["socket", "urllib.request", "http.client"])
def test_only_tests_of_a_service_may_ask_over_the_network(module: str) -> None:
    text = f"import {module}\n\n\ndef test_it():\n    assert {module}\n"
    verifier = Verifier(files=(VerifierFile(path="test_it.py", content=text),))
    assert not lint_gate(verifier).passed
    assert lint_gate(verifier, services=True).passed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class TestIt:\n    def test_a(self):\n        assert OUT\n", "class of tests"),
        ("class Cases:\n    def test_a(self):\n        assert OUT\n", "nested"),
        ("if OUT:\n    def test_a():\n        assert OUT\n", "nested"),
        ("async def test_a():\n    assert OUT\n", "asynchronous"),
        ("test_a = lambda: OUT\n", "assigned"),
        ("pytestmark = []\n", "sets pytestmark"),
        ("def pytest_runtest_call():\n    pass\n", "hook of pytest"),
        ("def test_a():\n    if OUT:\n        return\n    assert OUT\n", "returns before it asserts"),
        ("def test_a():\n    try:\n        assert OUT\n    except Exception:\n        pass\n", "swallows"),
        ("def test_a():\n    try:\n        assert OUT\n    finally:\n        return\n", "finally"),
        ("def test_a(box):\n    for row in box.text('x').split():\n        assert row\n", "asserts nothing"),
        ("def test_a():\n    assert OUT\n    return OUT\n", "returns a value"),
        ("def test_a():\n    assert OUT\n    yield\n", "yields"),
        ("def test_a():\n    assert OUT or True\n", "always true"),
        ("def test_a():\n    assert (OUT, 'message')\n", "always true"),
        ("def test_a():\n    assert 1 == 1\n", "always true"),
        ("def test_a():\n    assert OUT == OUT\n", "always true"),
        ("def test_a():\n    assert len(OUT) >= 0\n", "always true"),
        ("def test_a():\n    assert OUT\n    os._exit(0)\n", "ends the verifier"),
        ("def test_a():\n    assert OUT\n    raise SystemExit\n", "uses SystemExit"),
        ("def test_a():\n    assert OUT\n    quit()\n", "uses quit"),
        ("import pytest\ndef test_a():\n    getattr(pytest, 'sk' + 'ip')()\n    assert OUT\n", "getattr"),
        ("from pytest import skip as s\ndef test_a():\n    assert OUT\n", "imports skip"),
        ("import pytest\ndef test_a():\n    assert OUT\n    raise pytest.skip.Exception\n", "pytest.skip"),
        ("def test_a():\n    assert globals()['OUT']\n", "uses globals"),
        ("def test_a():\n    assert hash(OUT) % 2\n", "uses hash"),
        ("def test_a():\n    assert OUT.stat().st_mtime > 5\n", "depends on the time"),
        ("def test_a():\n    assert os.urandom(1) > b'0'\n", "is random"),
        ("def test_a(box):\n    assert box.text('/tests/expected')\n", "no part of what is judged"),
        ("def test_a(box):\n    assert box.text('/proc/self/environ')\n", "no part of what is judged"),
        ("import uuid\ndef test_a():\n    assert uuid\n", "imports uuid"),
        (
            "import sqlite3\ndef test_a():\n    assert sqlite3.connect('x').execute(\"select date('now')\")\n",
            "the time",
        ),
    ],
)
def test_what_need_not_run_or_cannot_fail_is_refused(text: str, said: str) -> None:
    gate = lint_gate(Verifier(files=(VerifierFile(path="test_it.py", content=HEAD + text + SOUND),)))
    assert not gate.passed
    assert said in gate.evidence


SOUND = "def test_sound():\n    assert OUT\n"


@pytest.mark.parametrize(
    "body",
    [
        "rows = box.text('x').split()\n    assert rows\n    for row in rows:\n        assert row",
        "for name in ('a', 'b'):\n        assert box.text(name)",
        "for name, size in SIZES.items():\n        assert len(box.read(name)) == size",
        "if box.text('x'):\n        assert OUT\n    else:\n        assert box.text('y')",
        "try:\n        n = int(box.text('x'))\n    except ValueError:\n        raise AssertionError('none') from None\n"
        "    assert n == 5",
        "if not box.text('x'):\n        pytest.fail('empty')",
        "check(box)",
        "with pytest.raises(ValueError):\n        int(box.text('x'))",
        "assert int(OUT.stat().st_mtime) == 1577836800",
    ],
)
def test_honest_ways_to_assert_are_let_through(body: str) -> None:
    before = "import pytest\nSIZES = {'a': 1}\ndef check(box):\n    assert box.text('x') == 'y'\n"
    text = f"{HEAD}{before}def test_it(box):\n    {body}\n"
    gate = lint_gate(Verifier(files=(VerifierFile(path="test_it.py", content=text),)))
    assert gate.passed, gate.evidence
