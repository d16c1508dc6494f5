"""Gates that need no sandbox: what the text of a task alone can prove wrong. Those that run it are in instances.py."""

from __future__ import annotations

import ast
import re
import sys

from pipeline.types import Record, TaskInstance, Verifier

ALLOWED_EXTRA = {"pytest"}
FORBIDDEN_MODULES = {
    "ctypes",
    "pickle",
    "socket",
    "urllib",
    "http",
    "random",
    "secrets",
    "datetime",
    "time",
    "importlib",
    "runpy",
    "shelve",
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "skip", "xfail", "importorskip"}
MIN_LEAK_CHARACTERS = 14


class Gate(Record):
    """One gate and what it saw."""

    gate: str
    passed: bool
    evidence: str


def lint_gate(verifier: Verifier) -> Gate:
    """Every file parses, has uniquely named tests, each test asserts on its main path, and nothing unsafe is used."""
    for file in verifier.files:
        try:
            fault = _fault_of(file.content)
        except SyntaxError as error:
            fault = f"does not parse: {error.msg} (line {error.lineno})"
        if fault:
            return Gate(gate="verifier_lint", passed=False, evidence=f"{file.path}: {fault}")
    count = sum(len(_tests(ast.parse(f.content))) for f in verifier.files)
    return Gate(gate="verifier_lint", passed=True, evidence=f"{count} tests, each with assertions")


def _tests(tree: ast.Module) -> list[ast.FunctionDef]:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]


def _fault_of(text: str) -> str:
    tree = ast.parse(text)
    tests = _tests(tree)
    if not tests:
        return "no test"
    names = [t.name for t in tests]
    if len(set(names)) < len(names):
        return "two tests share a name"
    for test in tests:
        if test.decorator_list:
            return f"{test.name} is decorated"
        if not any(isinstance(statement, ast.Assert) for statement in test.body):
            return f"{test.name} asserts nothing on its main path"
    return _unsafe(tree)


def _unsafe(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            if isinstance(node, ast.ImportFrom) and node.level:
                return "imports a relative module"
            for module in modules:
                root = module.split(".")[0]
                if root in FORBIDDEN_MODULES or root not in sys.stdlib_module_names | ALLOWED_EXTRA:
                    return f"imports {module}"
        if isinstance(node, ast.Call):
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else node.func.id
                if isinstance(node.func, ast.Name)
                else ""
            )
            if name in FORBIDDEN_CALLS and not (isinstance(node.func, ast.Attribute) and name == "compile"):
                return f"calls {name}"
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and node.test.value:
            return "an assertion that is always true"
    return ""


def leak_gate(instance: TaskInstance) -> Gate:
    """No command line of the solution stands in the instruction."""
    said = _squeeze(instance.instruction)
    for step in instance.solution:
        if "<<" in step:
            step = step.split("<<", 1)[0]
        for line in step.split("\n"):
            bare = _squeeze(re.sub(r"\s*>{1,2}\s*\S+\s*$", "", line))
            if len(bare) >= MIN_LEAK_CHARACTERS and " " in bare.strip() and bare in said:
                return Gate(gate="no_solution_text", passed=False, evidence=f"the instruction contains: {bare[:120]}")
    return Gate(gate="no_solution_text", passed=True, evidence=f"none of {len(instance.solution)} commands is in it")


def _squeeze(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())
