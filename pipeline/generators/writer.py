"""Writes the text of a verifier file: literals that can be read, imports as needed, constants for paths, tests."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

LINE = 96


def literal(value: object, indent: int = 0) -> str:
    """A value as readable Python: on one line where it fits, else one element per line."""
    flat = _flat(value)
    if len(flat) + indent <= LINE or not isinstance(value, list | tuple | dict | set) or not value:
        return flat
    pad = " " * (indent + 4)
    if isinstance(value, dict):
        body = [f"{_flat(k)}: {literal(v, indent + 4)}" for k, v in value.items()]
        marks = "{}"
    else:
        body = [literal(v, indent + 4) for v in (sorted(value) if isinstance(value, set) else value)]
        marks = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    return marks[0] + "\n" + "".join(f"{pad}{line},\n" for line in body) + " " * indent + marks[1]


def _flat(value: object) -> str:
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return quoted if value.isprintable() and "\\u" not in quoted else repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flat(k)}: {_flat(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | set) and value:
        inner = ", ".join(_flat(v) for v in (sorted(value) if isinstance(value, set) else value))
        return f"[{inner}]" if isinstance(value, list) else f"{{{inner}}}"
    if isinstance(value, tuple):
        return "(" + ", ".join(_flat(v) for v in value) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


class Writer:
    """Builds one verifier file: imports as they are needed, then constants, then tests."""

    def __init__(self) -> None:
        self._imports: set[str] = set()
        self._paths: dict[str, str] = {}
        self._tests: list[str] = []

    def needs(self, *modules: str) -> None:
        self._imports |= set(modules)

    def path(self, path: str) -> str:
        """Name of the constant that holds a path."""
        if path not in self._paths:
            base = re.sub(r"\W+", "_", PurePosixPath(path).name).strip("_").upper()
            base = base if base and not base[0].isdigit() else f"FILE_{base}"
            self._paths[path] = base if base not in self._paths.values() else f"{base}_{len(self._paths)}"
        return self._paths[path]

    def single(self, path: str) -> None:
        """Say that the verifier is about one file."""
        self._paths[path] = "RESULT"

    def test(self, name: str, *body: str, arguments: str = "") -> None:
        """Add a test; `arguments` are names of pytest's own fixtures."""
        slug = re.sub(r"_+", "_", re.sub(r"\W+", "_", name.lower())).strip("_")[:70].rstrip("_")
        unique = slug if all(f"def test_{slug}(" not in t for t in self._tests) else f"{slug}_{len(self._tests)}"
        lines = "\n".join(f"    {line}" if line else "" for part in body for line in part.split("\n"))
        self._tests.append(f"def test_{unique}({arguments}):\n{lines}\n")

    def text(self) -> str:
        imports = "".join(f"import {m}\n" for m in sorted(self._imports)) + "from pathlib import Path\n"
        constants = "".join(f"{name} = Path({literal(path)})\n" for path, name in self._paths.items())
        return imports + "\n" + constants + "\n\n" + "\n\n".join(self._tests)
