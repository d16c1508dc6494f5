"""The gate `verifier_lint`: what the text of a verifier alone proves wrong. What solutions show is in other files."""

from __future__ import annotations

import ast
import sys

from pipeline.admission.program_lint import program_fault
from pipeline.admission.records import Gate
from pipeline.types import Verifier

ALLOWED_EXTRA = {"pytest"}
# For tests that ask a running service, and only for those.
NETWORK_MODULES = {"socket", "urllib", "http"}
# What is random, what reaches out, and what could bring code of the judged state into the process that judges.
FORBIDDEN_MODULES = {
    "builtins",
    "marshal",
    "multiprocessing",
    "pkgutil",
    "site",
    "zipimport",
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
IMPORT_SYSTEM = {"sys.path", "sys.modules", "sys.meta_path", "sys.path_hooks"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "skip", "xfail", "importorskip"}


def lint_gate(verifier: Verifier, *, services: bool = False) -> Gate:
    """Every file parses, has uniquely named tests, each test asserts on its main path, and nothing unsafe is used.

    With `services` the tests may ask services of the sandbox over its network.
    """
    allowed = ALLOWED_EXTRA | (NETWORK_MODULES if services else set())
    for file in verifier.files:
        try:
            fault = _fault_of(file.content, allowed)
        except SyntaxError as error:
            fault = f"does not parse: {error.msg} (line {error.lineno})"
        if fault:
            return Gate(gate="verifier_lint", passed=False, evidence=f"{file.path}: {fault}")
    count = sum(len(_tests(ast.parse(f.content))) for f in verifier.files)
    return Gate(gate="verifier_lint", passed=True, evidence=f"{count} tests, each with assertions")


def _tests(tree: ast.Module) -> list[ast.FunctionDef]:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]


def _fault_of(text: str, allowed: set[str]) -> str:
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
    return _unsafe(tree, allowed) or program_fault(tree)


def _unsafe(tree: ast.Module, allowed: set[str]) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and (fault := _import_fault(node, allowed)):
            return fault
        if isinstance(node, ast.Attribute) and ast.unparse(node) in IMPORT_SYSTEM:
            return f"uses {ast.unparse(node)}, which decides what is imported"
        if isinstance(node, ast.Call) and (fault := _call_fault(node.func)):
            return fault
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and node.test.value:
            return "an assertion that is always true"
    return ""


def _import_fault(node: ast.Import | ast.ImportFrom, allowed: set[str]) -> str:
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level:
        return "imports a relative module"
    for module in modules:
        root = module.split(".")[0]
        if root not in allowed and (root in FORBIDDEN_MODULES or root not in sys.stdlib_module_names):
            return f"imports {module}"
    return ""


def _call_fault(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return f"calls {function.attr}" if function.attr in FORBIDDEN_CALLS - {"compile"} else ""
    return f"calls {function.id}" if isinstance(function, ast.Name) and function.id in FORBIDDEN_CALLS else ""
