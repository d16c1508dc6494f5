"""What a verifier may use: nothing that is random, knows the time or the machine, leaves pytest, or hides what it does.

Part of the lint in lint.py. Programs are in program_lint.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

ALLOWED_EXTRA = {"pytest"}
# For tests that ask a running service, and only for those.
NETWORK_MODULES = {"socket", "urllib", "http", "ssl", "ftplib", "smtplib", "imaplib", "poplib", "xmlrpc", "asyncio"}
# What is random, what reaches out, what looks into this process, and what could bring code of the judged state into it.
FORBIDDEN_MODULES = {
    *(
        "builtins",
        "marshal",
        "multiprocessing",
        "pkgutil",
        "site",
        "zipimport",
        "ctypes",
        "pickle",
        "importlib",
        "runpy",
    ),
    *("shelve", "inspect", "gc", "linecache", "atexit", "signal", "faulthandler", "code", "codeop", "pdb", "bdb"),
    *("random", "secrets", "uuid", "socketserver", "telnetlib", "nntplib", "webbrowser", "sysconfig", "unittest"),
    *("sched", "timeit", "time", "datetime", "zoneinfo", "pip", "ensurepip", "venv", "doctest", "trace"),
}
FROM_PYTEST = {"fixture", "approx", "raises", "fail"}
# Of the standard library, by the last two parts of their names.
FORBIDDEN_PARTS = {
    **dict.fromkeys(("sys.path", "sys.modules", "sys.meta_path", "sys.path_hooks"), "decides what is imported"),
    **dict.fromkeys(("sys.exit", "os._exit", "os.abort", "os.kill", "os.killpg"), "ends the verifier"),
    **dict.fromkeys(("sys._getframe", "sys.settrace", "sys.setprofile", "sys.addaudithook"), "looks into the verifier"),
    **dict.fromkeys(("sys.argv", "sys.executable", "sys.prefix", "sys.exec_prefix"), "is a path of the verifier"),
    **dict.fromkeys(("os.urandom", "os.getrandom"), "is random"),
    **dict.fromkeys(("os.getpid", "os.getppid", "os.times", "os.getloadavg", "os.uname"), "differs from run to run"),
    **dict.fromkeys(("platform.node", "platform.uname", "socket.gethostname"), "differs from machine to machine"),
    **dict.fromkeys(("utils.formatdate", "utils.localtime", "utils.make_msgid"), "depends on the time"),
}
FORBIDDEN_BUILTINS = {
    *("eval", "exec", "compile", "__import__", "globals", "locals", "vars", "setattr", "delattr", "breakpoint"),
    *("input", "exit", "quit", "id", "hash", "SystemExit", "KeyboardInterrupt", "__file__", "__builtins__"),
    *("__loader__", "__spec__", "__name__"),
}
# As methods of anything.
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "skip", "xfail", "importorskip", "setattr", "skipTest", "SkipTest"}
TIME_CALLS = {"now", "utcnow", "today"}
TIMES_OF_FILES = {"st_atime", "st_ctime", "st_birthtime", "st_atime_ns", "st_ctime_ns", "getatime", "getctime"}
MODIFICATION_TIMES = {"st_mtime", "st_mtime_ns", "getmtime"}
INNER_NAMES = {"__dict__", "__globals__", "__subclasses__", "__class__", "__code__", "__closure__", "__builtins__"}
PLACES = re.compile(r"/(?:tests|logs|oracle|solution|verifier)(?:/|$)|/proc/(?:self|thread-self|\d+)(?:/|$)")
"""Where other harnesses keep tests and rewards, and where a process finds itself: never part of a judged state."""
SQL_TIME = re.compile(r"\bCURRENT_(?:TIMESTAMP|DATE|TIME)\b|\(\s*'now'|%s'\s*,\s*'now'", re.IGNORECASE)


def use_fault(tree: ast.Module, *, services: bool) -> str:
    """The first thing that no verifier may use; empty when there is none. With `services` it may use the network."""
    allowed = ALLOWED_EXTRA | (NETWORK_MODULES if services else set())
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    stored |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    stored |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return next(_faults(tree, allowed, FORBIDDEN_BUILTINS - stored), "")


def _faults(tree: ast.Module, allowed: set[str], builtins: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from _of_import(node, allowed)
            case ast.Call():
                yield from _of_call(node)
            case ast.Attribute():
                yield from _of_attribute(node)
            case ast.Name(ctx=ast.Load(), id=name) if name in builtins:
                yield f"uses {name}"
            case ast.Name(id="SkipTest") | ast.Global():
                yield f"uses {ast.unparse(node)}"
            case ast.Compare():
                yield from _of_comparison(node)
            case ast.arg(arg="request" | "pytestconfig" | "monkeypatch"):
                yield f"takes {node.arg}, through which a test changes pytest"
            case ast.Constant(value=str() as text):
                yield from _of_text(text)


def _of_import(node: ast.Import | ast.ImportFrom, allowed: set[str]) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.level:
        yield "imports a relative module"
        return
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    for module in modules:
        root = module.split(".")[0]
        unknown = root not in sys.stdlib_module_names or root in FORBIDDEN_MODULES | NETWORK_MODULES
        if root not in allowed and unknown:
            yield f"imports {module}"
        if root == "pytest" and module != "pytest":
            yield f"imports {module}"
    for alias in node.names:
        if alias.asname and alias.name in {"pytest", "sys", "os"}:
            yield f"imports {alias.name} under another name"
        if isinstance(node, ast.ImportFrom):
            if node.module == "pytest" and alias.name not in FROM_PYTEST:
                yield f"imports {alias.name} of pytest"
            if (part := f"{(node.module or '').split('.')[-1]}.{alias.name}") in FORBIDDEN_PARTS:
                yield f"uses {part}, which {FORBIDDEN_PARTS[part]}"
            if alias.name == "*":
                yield f"imports everything of {node.module}"


def _of_call(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN_CALLS:
        yield f"calls {node.func.attr}"
    if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
        yield f"calls {node.func.id}"
    if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
        name, owner = node.args[1], ast.unparse(node.args[0])
        hidden = not (isinstance(name, ast.Constant) and isinstance(name.value, str))
        if hidden or owner in {"pytest", "os", "sys"} or getattr(name, "value", "") in INNER_NAMES | FORBIDDEN_CALLS:
            yield "calls getattr with a name that cannot be seen"
    if isinstance(node.func, ast.Attribute) and node.func.attr in TIME_CALLS:
        yield f"calls {node.func.attr}, which depends on the time"


def _of_attribute(node: ast.Attribute) -> Iterator[str]:
    written = ast.unparse(node)
    part = ".".join(written.split(".")[-2:])
    if part in FORBIDDEN_PARTS:
        yield f"uses {part}, which {FORBIDDEN_PARTS[part]}"
    if node.attr in INNER_NAMES:
        yield f"uses {node.attr}"
    if node.attr in TIMES_OF_FILES:
        yield f"uses {node.attr}, which depends on the time"
    if isinstance(node.value, ast.Name) and node.value.id == "pytest" and node.attr not in FROM_PYTEST:
        yield f"uses {written}"


def _of_comparison(node: ast.Compare) -> Iterator[str]:
    """A time of modification may be what the task asks for: then it equals a number."""
    times = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)} & MODIFICATION_TIMES
    if times and not all(isinstance(operator, ast.Eq) for operator in node.ops):
        yield f"compares {min(times)}, which depends on the time"


def _of_text(text: str) -> Iterator[str]:
    if PLACES.match(text):
        yield f"names {text[:60]}, which is no part of what is judged"
    if SQL_TIME.search(text):
        yield "asks a database for the time"
