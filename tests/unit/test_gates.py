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
