"""The commands of a reference solution share one shell: none may depend on what an earlier one left in it."""

from __future__ import annotations

import pytest

from pipeline.generators.documents import Block
from pipeline.generators.plans import Plan
from pipeline.generators.trials import contained, solution_steps, write_file

BLOCK = Block(document="README.md", line=1, headings=(), prose="", language="sh", text="")


def plan(*steps: str, before: tuple[Plan, ...] = (), files: tuple[tuple[str, str], ...] = ()) -> Plan:
    return Plan(kind="shell", block=BLOCK, steps=steps, before=before, files=files)


@pytest.mark.parametrize(
    ("step", "leaks"),
    [
        ("ls -l", False),
        ("tool cd x", False),
        ("cd build", True),
        ("mkdir build && cd build && cmake ..", True),
        ("export A=1", True),
        ("A=1", True),
        ("A=1 tool", False),
        ("true; set -e", True),
    ],
)
def test_only_a_step_that_changes_the_shell_is_put_in_a_subshell(step: str, leaks: bool) -> None:
    assert contained(step) == (f"(\n{step}\n)" if leaks else step)


def test_all_steps_but_the_last_leave_the_shell_as_it_was() -> None:
    earlier = plan("cd sub", "make", files=(("a.txt", "cd x\n"),))
    whole = plan("mkdir b && cd b && tool -o ../c", "cat c", before=(earlier,))
    assert solution_steps(whole, "/work", None) == (
        write_file("a.txt", "cd x\n"),
        "(\ncd sub\nmake\n)",
        "(\nmkdir b && cd b && tool -o ../c\n)",
        "cat c",
    )


def test_the_last_step_is_run_as_it_is_documented() -> None:
    assert solution_steps(plan("cd sub", "make"), "/work", None) == ("cd sub\nmake",)
    assert solution_steps(plan("tool a"), "/work", "/work/out") == ("tool a > out",)
