"""Imports the modules it is given and ends with 0 when the project can be used that way.

A package whose own file holds no code proves nothing: then the modules in it are imported, all of those that a program
starts from and at least half of all. Of the names given, at least half must come.
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import sys
from types import ModuleType

STARTS = {"main", "app", "cli", "server", "api", "core", "wsgi", "asgi", "run", "application", "manage"}
SKIPPED = ("test", "conftest", "setup", "example", "docs", "migrations", "__main__")
MOST = 25


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def imported(name: str) -> ModuleType | None:
    """The module, or None; says what happened."""
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - sys.exit in a module is one way of not being importable
        say(f"not imported: {name} ({type(error).__name__}: {str(error)[:300]})")
        return None
    say(f"imported: {name} from {getattr(module, '__file__', None)}")
    return module


def has_code(module: ModuleType) -> bool:
    """Whether the import ran anything: a def, a class, an import, a call; not only a docstring and constants."""
    path = getattr(module, "__file__", None)
    if not path or not path.endswith(".py"):
        return bool(path)
    try:
        with open(path, "rb") as source:
            body = ast.parse(source.read()).body
    except (OSError, SyntaxError, ValueError):
        return True
    constant = (ast.Expr, ast.Assign, ast.AnnAssign, ast.Pass)
    return any(
        not isinstance(node, constant) or any(isinstance(part, ast.Call) for part in ast.walk(node)) for node in body
    )


def works(name: str) -> bool:
    # A program reads its arguments: what is given here is not meant for it.
    sys.argv = [name]
    module = imported(name)
    if module is None:
        return False
    paths = list(getattr(module, "__path__", ()))
    return has_code(module) or (bool(paths) and parts_work(name, paths))


def parts_work(package: str, paths: list[str]) -> bool:
    names = [one.name for one in pkgutil.iter_modules(paths) if not one.name.startswith(SKIPPED)]
    names = sorted(names, key=lambda name: name not in STARTS)[:MOST]
    came, ran = 0, 0
    for name in names:
        module = imported(f"{package}.{name}")
        if module is None and name in STARTS:
            return False
        came += module is not None
        ran += module is not None and has_code(module)
    return ran > 0 and came * 2 >= len(names)


def main(names: list[str]) -> None:
    worked = [name for name in names if works(name)]
    # Threads and servers that an import started do not keep this from ending.
    os._exit(0 if worked and len(worked) * 2 >= len(names) else 1)


main(sys.argv[1:])
