"""What a repository's compose files say about building: which Dockerfile, context, stage and arguments.

Only read, never obeyed: services, volumes and networks are nobody's business here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml  # type: ignore[import-untyped]

from pipeline.checkout import Tree

_NAME = re.compile(r"(?:docker-)?compose(?:[.-][\w-]+)*\.ya?ml", re.IGNORECASE)
_FOLDERS = ("", "docker", ".docker", "deploy", ".devcontainer")
_MAX_BYTES = 2**18
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?[^}]*\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Build:
    """One `build:` of a service; paths are relative to the tree."""

    dockerfile: str
    context: str
    target: str | None
    arguments: tuple[tuple[str, str], ...]


def builds(tree: Tree) -> list[Build]:
    """The builds of all compose files of the usual places, the plainest file first; broken files have none."""
    places = [name for name in tree.files if _NAME.fullmatch(posixpath.basename(name))]
    places = [name for name in places if posixpath.dirname(name) in _FOLDERS]
    return [
        build
        for name in sorted(places, key=lambda name: (name.count("/"), len(name), name))
        for build in _of_file(tree, name)
    ]


def _of_file(tree: Tree, path: str) -> Iterator[Build]:
    try:
        content = yaml.safe_load(tree.read(path, max_bytes=_MAX_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return
    services = content.get("services", content) if isinstance(content, dict) else None
    for service in services.values() if isinstance(services, dict) else ():
        build = service.get("build") if isinstance(service, dict) else None
        if isinstance(build, str):
            build = {"context": build}
        if isinstance(build, dict) and (made := _build(posixpath.dirname(path), build)) is not None:
            yield made


def _build(folder: str, build: Mapping[object, object]) -> Build | None:
    context = _below(folder, _value(build.get("context")) or ".")
    if context is None:
        return None
    dockerfile = _below(context, _value(build.get("dockerfile")) or "Dockerfile")
    if dockerfile is None:
        return None
    return Build(dockerfile, context, _value(build.get("target")), tuple(_arguments(build.get("args"))))


def _arguments(given: object) -> Iterator[tuple[str, str]]:
    """`args` is a mapping or a list of `NAME=value`; what depends on somebody's environment has no value."""
    pairs: list[tuple[object, object]] = []
    if isinstance(given, dict):
        pairs = list(given.items())
    elif isinstance(given, list):
        split = [str(one).partition("=") for one in given]
        pairs = [(name, value) for name, equals, value in split if equals]
    for name, value in pairs:
        if (text := _value(value)) is not None:
            yield str(name), text


def _value(given: object) -> str | None:
    """A scalar with its variables replaced by their defaults; None when there is none or a variable has none."""
    if not isinstance(given, str | int | float):
        return None
    text = _VARIABLE.sub(lambda match: match[2] if match[2] is not None else "\0", str(given))
    return None if "\0" in text or not text else text


def _below(folder: str, path: str) -> str | None:
    """A path of the tree, empty for its root; None when it leads out of it or is an address."""
    if "://" in path or path.startswith(("/", "git@", "~")):
        return None
    joined = posixpath.normpath(posixpath.join(folder, path))
    if joined.startswith(".."):
        return None
    return "" if joined == "." else joined
