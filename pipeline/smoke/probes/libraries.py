"""Finds the project's headers (names in headers.json beside this file) where they were installed, and its libraries.

A library is the project's when it lies in the tree, or where no package of the system put it. The argument is the tree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDES = ("/usr/local/include", "/usr/include", "/opt")
LIBRARIES = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/opt")
SKIPPED = {".git", "node_modules", "python3", "jvm", "gcc", "CMakeFiles"}
DPKG = "/var/lib/dpkg/info"
QUERIES = (["apk", "info", "-W"], ["rpm", "-qf"])
MOST = 200


def known_to_dpkg() -> set[str]:
    """Every path that dpkg brought: asking for one at a time takes too long."""
    known: set[str] = set()
    for name in os.listdir(DPKG) if os.path.isdir(DPKG) else ():
        if name.endswith(".list"):
            with open(os.path.join(DPKG, name), encoding="utf-8", errors="replace") as paths:
                known.update(line.rstrip("\n") for line in paths)
    return known


def owned(path: str, known: set[str]) -> bool:
    """Whether a package of the system brought a file."""
    if known:
        return path in known or path.replace("/usr/lib", "/lib", 1) in known
    for query in QUERIES:
        try:
            answer = subprocess.run([*query, path], capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if answer.returncode == 0:
            return True
    return False


def walk(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    for place in places:
        for folder, folders, names in os.walk(place):
            folders[:] = [one for one in folders if one not in SKIPPED]
            for name in names:
                yield folder, name


def installed_headers(names: set[str], known: set[str]) -> Iterator[tuple[str, str]]:
    """A folder of the search path, and the header as it is included from there."""
    for folder, name in walk(INCLUDES):
        path = os.path.join(folder, name)
        if name not in names or owned(path, known):
            continue
        root = next(one for one in INCLUDES if path.startswith(f"{one}/"))
        if root == "/opt":
            root = path[: path.index("/include/") + 8] if "/include/" in path else folder
        yield root, os.path.relpath(path, root)


def own_libraries(tree: str, known: set[str]) -> Iterator[str]:
    for folder, name in walk((*LIBRARIES, tree)):
        path = os.path.join(folder, name)
        if name.startswith("lib") and (name.endswith((".so", ".a")) or ".so." in name):
            real = os.path.realpath(path)
            if path.startswith(f"{tree}/") or not (owned(path, known) or owned(real, known)):
                yield path


def main(tree: str) -> None:
    with open(os.path.join(HERE, "headers.json"), encoding="utf-8") as listed:
        names = set(json.load(listed))
    known = known_to_dpkg()
    headers = list(installed_headers(names, known))
    libraries = list(own_libraries(tree, known))
    if any(path.startswith(f"{tree}/") for path in libraries):
        for folder, name in walk((tree,)):
            if name in names:
                headers += [(tree, os.path.relpath(os.path.join(folder, name), tree)), (folder, name)]
    sys.stdout.write(json.dumps({"headers": headers[:MOST], "libraries": libraries[:MOST]}) + "\n")


main(sys.argv[1])
