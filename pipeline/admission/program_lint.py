"""What a verifier may do with programs of the judged state: each of them may lie, write, and never end.

A test reads what it judges before it runs anything; what a program writes it may read only from a folder of pytest's,
which did not exist while the agent acted. The rest of the lint is in lint.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

RUNNING = {"run", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "Popen"}
RUNNING_OF_OS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}
READING = {"open", "read_text", "read_bytes", "exists", "is_file", "is_dir", "is_symlink", "stat", "lstat", "iterdir"}
READING |= {"glob", "rglob", "listdir", "scandir", "walk", "getsize", "connect", "readlink", "access"}
# Methods with common names: reading only when they are those of the fixture.
READING_OF_BOX = {"read", "text"}
OWN_FOLDERS = {"tmp_path", "tmp_path_factory", "tmpdir"}
# What a test could do itself, and an agent may have replaced.
REPLACEABLE = {
    *("awk", "base64", "basename", "bash", "cat", "cmp", "comm", "cut", "dash", "date", "diff", "dirname", "du"),
    *("echo", "egrep", "env", "expr", "false", "file", "find", "grep", "head", "jq", "ls", "md5sum", "od", "printf"),
    *("pwd", "readlink", "realpath", "sed", "seq", "sh", "sha1sum", "sha256sum", "sort", "stat", "tail", "tar", "tee"),
    *("test", "tr", "true", "uniq", "wc", "which", "xargs", "xxd", "zsh"),
}


def program_fault(tree: ast.Module) -> str:
    """What is wrong with how a verifier uses programs; empty when nothing is."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    runners = _closure(functions, _runs)
    readers = _closure(functions, _reads)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) and any(_is(c, _runs, runners) for c in _calls(node)):
            return "runs a program while it is imported"
    for call in _calls(tree):
        if _runs(call) and (fault := _running_fault(call)):
            return fault
    for name, function in functions.items():
        if name.startswith("test") and _reads_after_running(function, runners, readers):
            return f"{name} reads the judged state after it ran a program, which may have written there"
    return ""


def _running_fault(call: ast.Call) -> str:
    if _owner(call) == "os":
        return f"calls os.{_name(call)}: use subprocess.run with a timeout"
    options = {option.arg for option in call.keywords}
    if "shell" in options or _name(call) in {"getoutput", "getstatusoutput"}:
        return "runs a shell"
    if "timeout" not in options:
        return f"calls {_name(call)} without a timeout"
    command = call.args[0] if call.args else None
    if isinstance(command, ast.List | ast.Tuple) and command.elts:
        command = command.elts[0]
    if isinstance(command, ast.Constant) and isinstance(command.value, str):
        program = PurePosixPath(command.value).name
        if program in REPLACEABLE:
            return f"runs {program}, which the agent may have replaced"
    return ""


def _reads_after_running(function: ast.FunctionDef, runners: set[str], readers: set[str]) -> bool:
    own = _own_names(function)
    ran = False
    for call in sorted(_calls(function), key=lambda c: (c.end_lineno or 0, c.end_col_offset or 0)):
        if _is(call, _runs, runners):
            ran = True
        elif ran and _is(call, _reads, readers) and not _mentions(call, own):
            return True
    return False


def _own_names(function: ast.FunctionDef) -> set[str]:
    """Names that stand for something in a folder of pytest's."""
    own = {argument.arg for argument in function.args.args} & OWN_FOLDERS
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _mentions(node.value, own):
            own |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return own


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _runs(call: ast.Call) -> bool:
    owner, name = _owner(call), _name(call)
    if owner == "os":
        return name in RUNNING_OF_OS or name.startswith(("exec", "spawn"))
    return name in RUNNING and owner in ("subprocess", "")


def _reads(call: ast.Call) -> bool:
    return _name(call) in READING or (_owner(call) == "box" and _name(call) in READING_OF_BOX)


def _is(call: ast.Call, kind: Callable[[ast.Call], bool], functions: set[str]) -> bool:
    return kind(call) or (_owner(call) == "" and _name(call) in functions)


def _closure(functions: dict[str, ast.FunctionDef], kind: Callable[[ast.Call], bool]) -> set[str]:
    """Names of the functions that do something of a kind, themselves or through others."""
    found: set[str] = set()
    while True:
        more = {name for name, f in functions.items() if any(_is(call, kind, found) for call in _calls(f))}
        if more == found:
            return found
        found = more


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Call))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _owner(call: ast.Call) -> str:
    """The name before the dot; empty for a plain name, a question mark for anything longer."""
    if isinstance(call.func, ast.Attribute):
        return call.func.value.id if isinstance(call.func.value, ast.Name) else "?"
    return ""
