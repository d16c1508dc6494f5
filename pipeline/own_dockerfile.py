"""A repository's own Dockerfile: finding it, choosing its build context, and adding what an agent needs.

The text is changed as little as possible. Templates are not here; see dockerfiles.py.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
from dataclasses import dataclass

from pipeline.checkout import Tree
from sandbox.building.dockerfile_text import instructions

_NAMES = frozenset({"dockerfile", "containerfile"})
_MAX_DEPTH = 2
_MOST = 3
# Folders whose Dockerfiles build something else than the project.
_OTHERS = frozenset(
    {"vendor", "node_modules", "third_party", "test", "tests", "testdata", "fixtures"}
    | {"example", "examples", "samples", ".github", ".circleci", "ci"}
)
_MAX_BYTES = 2**18
_URL = re.compile(r"[a-z]+://|git@", re.IGNORECASE)
_SAFE = re.compile(r"[\w.][\w.+-]*", re.ASCII)
_LANDMARKS = 12

_TAIL = """
# From here on the same for every repository: an agent works as root, in the tree, with the usual tools.
USER root
RUN missing=; \\
    for tool in bash git python3; do command -v "$tool" > /dev/null || missing="$missing $tool"; done; \\
    if [ -z "$missing" ]; then :; \\
    elif command -v apt-get > /dev/null; then \\
      export DEBIAN_FRONTEND=noninteractive; \\
      apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing > /dev/null; \\
    elif command -v apk > /dev/null; then apk add --quiet --no-cache coreutils $missing; \\
    elif command -v dnf > /dev/null; then dnf install -y -q $missing; \\
    else echo "no package manager to install$missing" >&2; exit 1; fi
@keep@COPY . @workdir@
WORKDIR @workdir@
RUN @clean@
ENTRYPOINT []
CMD ["bash"]
"""
# What the Dockerfile installed or built inside its own copy of the tree comes along.
_KEEP = """\
RUN case @workdir@/ in "${PWD%/}"/*) exit 0;; esac; \\
    if [ "$(ls -d @landmarks@ 2> /dev/null | wc -l)" -ge @most@ ]; then mkdir -p @workdir@ && cp -a . @workdir@/; fi
"""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A COPY or ADD: the instruction with its flags, what is copied, and where to."""

    head: str
    sources: tuple[str, ...]
    destination: str
    as_json: bool


@dataclass(frozen=True, slots=True)
class OwnDockerfile:
    """One Dockerfile of a repository and how it is meant to be built."""

    path: str
    context: str = ""
    """Folder of the tree that is the build context; empty for the whole tree."""
    target: str | None = None
    """Stage that is wanted; None for the last one."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Build arguments (name, value) that it is built with."""


def find_all(tree: Tree) -> list[OwnDockerfile]:
    """The Dockerfiles that may build the project, the likeliest first, at most three."""
    found = sorted((name for name in tree.files if _is_dockerfile(name)), key=lambda name: (name.count("/"), name))
    return [OwnDockerfile(path, _context(tree, path)) for path in found[:_MOST]]


def find(tree: Tree) -> OwnDockerfile | None:
    """The likeliest Dockerfile, None when there is none."""
    return next(iter(find_all(tree)), None)


def extend(tree: Tree, own: OwnDockerfile, workdir: str, clean: str) -> str:
    """Its text for the whole tree as context, with lines added that place the tree at `workdir` and run `clean`."""
    text = _text(tree, own.path)
    text = _without_last_scratch(text)
    if own.context:
        text = _below(text, own.context)
    landmarks = sorted({name.partition("/")[0] for name in tree.files if _SAFE.fullmatch(name.partition("/")[0])})
    landmarks = landmarks[:_LANDMARKS]
    keep = _KEEP.replace("@landmarks@", " ".join(landmarks)).replace("@most@", str(len(landmarks) // 2 + 1))
    tail = _TAIL.replace("@keep@", keep if landmarks else "").replace("@clean@", clean)
    return text.rstrip("\n") + "\n" + tail.replace("@workdir@", workdir)


def _text(tree: Tree, path: str) -> str:
    return tree.read(path, max_bytes=_MAX_BYTES).decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _context(tree: Tree, path: str) -> str:
    """The folder of the Dockerfile when more of what it copies lies there than in the root."""
    folder = posixpath.dirname(path)
    text = _text(tree, path)
    return folder if folder and _present(tree, text, folder) > _present(tree, text, "") else ""


def _is_dockerfile(path: str) -> bool:
    *folders, name = path.split("/")
    return name.lower() in _NAMES and len(folders) <= _MAX_DEPTH and not _OTHERS.intersection(folders)


def _without_last_scratch(text: str) -> str:
    """Without the last stages that start from nothing, since nothing can be run in them; all when there is no other."""
    lines = text.splitlines()
    for stage in reversed([one for one in instructions(text) if one.word == "FROM"][1:]):
        if not re.match(r"FROM\s+scratch\b", stage.text.strip(), re.IGNORECASE):
            break
        lines = lines[: stage.first]
    return "\n".join(lines)


def _copied(step: str) -> _Copy | None:
    """A COPY or ADD from the context taken apart; None for everything else."""
    match = re.match(r"\s*((?:COPY|ADD)(?:\s+--[\w-]+(?:=\S+)?)*)\s+(.+)", step, re.IGNORECASE | re.DOTALL)
    if match is None or "--from=" in match[1].lower():
        return None
    rest = match[2].strip()
    try:
        words = json.loads(rest) if rest.startswith("[") else rest.split()
    except json.JSONDecodeError:
        return None  # The builder will say what is wrong with it.
    if len(words) < 2 or not all(isinstance(word, str) for word in words):
        return None
    return _Copy(match[1], tuple(words[:-1]), words[-1], rest.startswith("["))


def _present(tree: Tree, text: str, folder: str) -> int:
    """How many sources of its COPY and ADD lines exist when `folder` is the context."""
    sources = [source for step in instructions(text) if (copy := _copied(step.text)) for source in copy.sources]
    return sum(_exists(tree, _join(folder, source)) for source in sources)


def _exists(tree: Tree, path: str) -> bool:
    if path == ".":
        return True
    return any(name == path or name.startswith(f"{path}/") or fnmatch.fnmatchcase(name, path) for name in tree.files)


def _join(folder: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(folder, source.lstrip("/")))


def _below(text: str, folder: str) -> str:
    """The text with the sources of every COPY and ADD looked for below `folder`."""
    lines = text.splitlines()
    for step in reversed(instructions(text)):
        if (copy := _copied(step.text)) is not None:
            words = [source if _URL.match(source) else _join(folder, source) for source in copy.sources]
            words.append(copy.destination)
            written = json.dumps(words) if copy.as_json else " ".join(words)
            lines[step.first : step.last + 1] = [f"{copy.head} {written}"]
    return "\n".join(lines)
