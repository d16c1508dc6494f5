"""The gate `verifier_lint`: what the text of a verifier alone proves wrong. What solutions show is in other files.

Here: which tests there are. What each asserts is in assertion_lint.py, what a verifier may use in use_lint.py, how it
runs programs in program_lint.py.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from pipeline.admission.assertion_lint import assertion_fault, constant_fault
from pipeline.admission.program_lint import program_fault
from pipeline.admission.records import Gate
from pipeline.admission.use_lint import use_fault
from pipeline.types import Verifier

MARKS = {"pytestmark", "__test__", "collect_ignore", "collect_ignore_glob", "pytest_plugins"}
"""Names by which a file tells pytest which of its tests count."""
HOOK = "pytest_"


def lint_gate(verifier: Verifier, *, services: bool = False) -> Gate:
    """Every file parses, every test in it is run, can fail and asserts on every way, and nothing unsafe is used.

    With `services` the tests may ask services of the sandbox over its network.
    """
    count = 0
    for file in verifier.files:
        try:
            tree = ast.parse(file.content)
            fault = _fault_of(tree, services)
        except SyntaxError as error:
            fault = f"does not parse: {error.msg} (line {error.lineno})"
        except (ValueError, RecursionError) as error:
            fault = f"does not parse: {error}"
        if fault:
            return Gate(gate="verifier_lint", passed=False, evidence=f"{file.path}: {fault}")
        count += len(_tests(tree))
    if not count:
        return Gate(gate="verifier_lint", passed=False, evidence="no file")
    return Gate(gate="verifier_lint", passed=True, evidence=f"{count} tests, each with assertions")


def _tests(tree: ast.Module) -> list[ast.FunctionDef]:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]


def _fault_of(tree: ast.Module, services: bool) -> str:
    tests = _tests(tree)
    if fault := next(_unaccounted(tree), ""):
        return fault
    if not tests:
        return "no test"
    if [name for name, number in Counter(t.name for t in tests).items() if number > 1]:
        return "two tests share a name"
    for test in tests:
        if test.decorator_list:
            return f"{test.name} is decorated"
        if fault := assertion_fault(test, tree):
            return fault
    return constant_fault(tree) or use_fault(tree, services=services) or program_fault(tree)


def _unaccounted(tree: ast.Module) -> Iterator[str]:
    """What looks like a test and is none that always runs, and what decides which tests run."""
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield f"{node.name} is a class of tests: write functions"
        elif isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield f"{node.name} is asynchronous: nothing would await it"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(HOOK):
            yield f"{node.name} is a hook of pytest"
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test") and id(node) not in top:
            yield f"{node.name} is nested: it may not run"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            if node.id in MARKS:
                yield f"sets {node.id}"
        elif isinstance(node, ast.Attribute) and node.attr in MARKS:
            yield f"sets {node.attr}"
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id.startswith("test_"):
                yield f"{target.id} is assigned, not defined"
