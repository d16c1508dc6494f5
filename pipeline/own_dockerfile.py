"""A repository's own Dockerfiles: finding them, choosing context, stage and arguments, and adding what an agent needs.

The text is changed as little as possible. What is mended after a build failed is in own_repairs.py; templates are not
here either, see dockerfiles.py.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
from dataclasses import dataclass

from pipeline import compose
from pipeline.checkout import Tree
from sandbox.building.dockerfile_text import Instruction, instructions

_NAME = re.compile(r"(?:(?P<before>[\w-]+)\.)?(?:dockerfile|containerfile)(?:[._-](?P<after>[\w.-]+))?", re.IGNORECASE)
# What a name says that is no Dockerfile for this machine, or not one yet.
_NOT = re.compile(
    r"(?:^|[._-])(?:md|txt|rst|html?|py|sh|js|ts|go|rb|php|ya?ml|json|j2|jinja2?|tmpl|template|tpl|in|erb|dockerignore"
    r"|swp|bak|orig|old|windows\w*|win\w*|nanoserver|servercore|arm\w*|aarch64|armhf|s390x|ppc64\w*|riscv\w*|i386|cross)"
    r"(?:$|[._-])",
    re.IGNORECASE,
)
# Names of Dockerfiles that are for working on a project or publishing it, when there is a plain one.
_LESS_LIKELY = re.compile(
    r"test|ci\b|lint|docs?\b|bench|fuzz|debug|release|publish|build|buildx|cuda|gpu|rpm|deb\b", re.I
)
_MAX_DEPTH = 2
_MOST = 3
# Folders whose Dockerfiles build something else than the project.
_OTHERS = frozenset(
    {"vendor", "node_modules", "third_party", "test", "tests", "testdata", "fixtures", "e2e", "benchmark", "benchmarks"}
    | {"example", "examples", "samples", "demo", "demos", "docs", "doc", ".github", ".gitlab", ".circleci", "ci"}
)
_PACKAGING = frozenset({"docker", ".docker", "dockerfiles", "build", "container", "containers", "deploy", "deployment"})
_DEVCONTAINER = ".devcontainer"
_MANIFESTS = frozenset(
    {"package.json", "go.mod", "pyproject.toml", "setup.py", "requirements.txt", "pom.xml", "composer.json"}
    | {"CMakeLists.txt", "Makefile", "build.gradle", "index.html"}
)
_MAX_BYTES = 2**18
_URL = re.compile(r"[a-z]+://|git@|<<", re.IGNORECASE)
_MOUNT = re.compile(r"--mount=\S+")
_FROM = re.compile(r"(FROM\s+(?:--platform=\S+\s+)?)(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
# Images without a shell or a package manager: nothing can be run in them.
_BARE = re.compile(r"scratch$|busybox\b|\S*distroless[/.]|\S*/static\b|chainguard/", re.IGNORECASE)
_ARG = re.compile(r"ARG\s+(\w+)\s*(=)?", re.IGNORECASE)
# Values for arguments that somebody else would have given.
_SAFE_ARGUMENTS = dict.fromkeys(("UID", "GID", "PUID", "PGID", "USER_ID", "GROUP_ID", "USER_UID", "USER_GID"), "1000")
_SAFE_ARGUMENTS |= {"NODE_ENV": "production", "USERNAME": "app", "TZ": "UTC", "PORT": "8000"}
_PLAIN = re.compile(r"[\w./:@+-]+")
_SAFE = re.compile(r"[\w.][\w.+-]*", re.ASCII)
_LANDMARKS = 12

_TAIL = """
# From here on the same for every repository: an agent works as root, in the tree, with the usual tools.
USER root
SHELL ["/bin/sh", "-c"]
RUN missing=; \\
    for tool in bash git python3; do command -v "$tool" > /dev/null || missing="$missing $tool"; done; \\
    if [ -z "$missing" ]; then :; \\
    elif command -v apt-get > /dev/null; then \\
      export DEBIAN_FRONTEND=noninteractive; \\
      apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing > /dev/null; \\
    elif command -v apk > /dev/null; then apk add --quiet --no-cache coreutils $missing; \\
    elif command -v dnf > /dev/null; then dnf install -y -q $missing; \\
    elif command -v microdnf > /dev/null; then microdnf install -y $missing; \\
    else echo "no package manager to install$missing" >&2; exit 1; fi
@keep@COPY . @workdir@
WORKDIR @workdir@
RUN rm -rf .git && @clean@
HEALTHCHECK NONE
ENTRYPOINT []
CMD ["bash"]
"""
# What the Dockerfile installed or built inside its own copy of the tree comes along.
_KEEP = """\
RUN case @workdir@/ in "${PWD%/}"/*) exit 0;; esac; \\
    if [ "$(ls -d @landmarks@ 2> /dev/null | wc -l)" -ge @most@ ]; then mkdir -p @workdir@ && cp -a . @workdir@/; fi
"""


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


@dataclass(frozen=True, slots=True)
class _Copy:
    """A COPY or ADD: the instruction with its flags, what is copied, and where to."""

    head: str
    sources: tuple[str, ...]
    destination: str
    as_json: bool


def find_all(tree: Tree) -> list[OwnDockerfile]:
    """The Dockerfiles that may build the project, the likeliest first, at most three."""
    composed = {one.dockerfile: one for one in reversed(compose.builds(tree))}
    found = [name for name in tree.files if _is_dockerfile(name)]
    ranked = sorted(found, key=lambda name: _rank(tree, name, composed))
    return [_meant(tree, name, composed.get(name)) for name in ranked[:_MOST]]


def extend(tree: Tree, own: OwnDockerfile, workdir: str, clean: str) -> str:
    """Its text for the whole tree as context, with lines added that place the tree at `workdir` and run `clean`."""
    text = _up_to(_text(tree, own.path), own.target)
    text = _on_the_stage_before(_with_arguments(text, dict(own.arguments)))
    if own.context:
        text = _below(text, own.context)
    landmarks = sorted({name.partition("/")[0] for name in tree.files if _SAFE.fullmatch(name.partition("/")[0])})
    landmarks = landmarks[:_LANDMARKS]
    keep = _KEEP.replace("@landmarks@", " ".join(landmarks)).replace("@most@", str(len(landmarks) // 2 + 1))
    tail = _TAIL.replace("@keep@", keep if landmarks else "").replace("@clean@", clean)
    return text.rstrip("\n") + "\n" + tail.replace("@workdir@", workdir)


def _text(tree: Tree, path: str) -> str:
    return tree.read(path, max_bytes=_MAX_BYTES).decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _is_dockerfile(path: str) -> bool:
    *folders, name = path.split("/")
    match = _NAME.fullmatch(name)
    if match is None or _NOT.search(match["before"] or "") or _NOT.search(match["after"] or ""):
        return False
    return len(folders) <= _MAX_DEPTH and not _OTHERS.intersection(folder.lower() for folder in folders)


def _rank(tree: Tree, path: str, composed: dict[str, compose.Build]) -> tuple[object, ...]:
    """Less is likelier: what lacks its sources comes late, then other folders, then other names."""
    *folders, name = path.split("/")
    match = _NAME.fullmatch(name)
    variant = "" if match is None else f"{match['before'] or ''}{match['after'] or ''}"
    build = _meant(tree, path, composed.get(path))
    return (
        _DEVCONTAINER in folders,
        _missing(tree, _text(tree, path), build.context) > 0,
        # A plain name in another folder comes before a variant in the root.
        bool(variant) + bool(_LESS_LIKELY.search(variant)),
        len(folders),
        path not in composed and not _PACKAGING.intersection(folder.lower() for folder in folders),
        path,
    )


def _meant(tree: Tree, path: str, composed: compose.Build | None) -> OwnDockerfile:
    """How a Dockerfile is built: as a compose file says, where that fits, else by where its sources are found."""
    text = _text(tree, path)
    contexts = dict.fromkeys(["", posixpath.dirname(path), posixpath.dirname(posixpath.dirname(path))])
    if composed is not None:
        contexts = dict.fromkeys([composed.context, *contexts])
    fewest = min(_missing(tree, text, folder) for folder in contexts)
    fitting = [folder for folder in contexts if _missing(tree, text, folder) == fewest]
    own_folder = posixpath.dirname(path)
    context = fitting[0]
    if composed is None and own_folder in fitting and _is_project(tree, own_folder):
        context = own_folder
    target = composed.target if composed is not None and _has_stage(text, composed.target) else None
    return OwnDockerfile(path, context, target, composed.arguments if composed is not None else ())


def _is_project(tree: Tree, folder: str) -> bool:
    """Whether a folder is a project of its own, so that `COPY .` means the folder and not the whole tree."""
    return any(_join(folder, name) in tree.files for name in _MANIFESTS)


def _has_stage(text: str, target: str | None) -> bool:
    stages = (_FROM.match(step.text.strip()) for step in instructions(text))
    return target is not None and any(stage and (stage[3] or "").lower() == target.lower() for stage in stages)


def _up_to(text: str, target: str | None) -> str:
    """Without the stages behind the wanted one."""
    if target is None:
        return text
    wanted = False
    for step in instructions(text):
        if match := _FROM.match(step.text.strip()):
            if wanted:
                return "\n".join(text.splitlines()[: step.first])
            wanted = (match[3] or "").lower() == target.lower()
    return text


def _with_arguments(text: str, given: dict[str, str]) -> str:
    """Arguments with the values that were given for them; those without any get a safe one where there is one."""
    steps = instructions(text)
    in_from = " ".join(step.text for step in steps if step.word == "FROM")
    found = [
        (step, match) for step in steps if (match := _ARG.match(step.text.strip())) and len(step.text.split()) == 2
    ]
    # A stage takes over the value of an argument that stands before all stages.
    defaults = {match[1] for _, match in found if match[2]}
    lines = text.splitlines()
    for step, match in found:
        name = match[1]
        value = given.get(name)
        if value is None and name not in defaults:
            value = "latest" if re.search(rf":\$\{{?{name}\b", in_from) else _SAFE_ARGUMENTS.get(name)
        if value is not None:
            _replace(lines, step, f"ARG {name}={value if _PLAIN.fullmatch(value) else json.dumps(value)}")
    return "\n".join(lines)


def _on_the_stage_before(text: str) -> str:
    """With a last stage from an image in which nothing can be run put on the stage whose results it takes."""
    lines = text.splitlines()
    stages = [(step, match) for step in instructions(text) if (match := _FROM.match(step.text.strip()))]
    if len(stages) < 2 or not _BARE.match(stages[-1][1][2]):
        return text
    last, written = stages[-1]
    names = {(match[3] or str(number)).lower(): number for number, (_, match) in enumerate(stages[:-1])}
    taken = re.findall(r"(?im)^\s*COPY\s.*?--from=(\S+)", "\n".join(lines[last.first :]))
    usable = [number for number, (_, match) in enumerate(stages[:-1]) if not _BARE.match(match[2])]
    wanted = [names[one.lower()] for one in taken if names.get(one.lower()) in usable]
    if not usable:
        return text
    number = (wanted or usable[-1:])[0]
    step, match = stages[number]
    name = match[3] or f"stage-{number}"
    # Users of the other image are not those of this one.
    for copy in (one for one in instructions(text) if one.first > last.first and one.word in ("COPY", "ADD")):
        for line in range(copy.first, copy.last + 1):
            lines[line] = re.sub(r"\s--chown=\S+", "", lines[line])
    _replace(lines, last, f"FROM {name}" + (f" AS {written[3]}" if written[3] else ""))
    if match[3] is None:
        _replace(lines, step, f"{match[1]}{match[2]} AS {name}")
    return "\n".join(lines)


def _replace(lines: list[str], step: Instruction, written: str) -> None:
    """Put one line in the place of an instruction; the number of lines stays."""
    lines[step.first : step.last + 1] = [written, *[""] * (step.last - step.first)]


def _copied(step: str) -> _Copy | None:
    """A COPY or ADD from the context taken apart; None for everything else."""
    match = re.match(r"\s*((?:COPY|ADD)(?:\s+--[\w-]+(?:=\S+)?)*)\s+(.+)", step, re.IGNORECASE | re.DOTALL)
    if match is None or "--from=" in match[1].lower():
        return None
    rest = match[2].strip()
    try:
        words = json.loads(rest) if rest.startswith("[") else rest.split()
    except (ValueError, RecursionError):
        return None  # The builder will say what is wrong with it.
    if len(words) < 2 or not all(isinstance(word, str) for word in words):
        return None
    return _Copy(match[1], tuple(words[:-1]), words[-1], rest.startswith("["))


def _missing(tree: Tree, text: str, folder: str) -> int:
    """How many sources of its COPY and ADD lines do not exist when `folder` is the context."""
    sources = [source for step in instructions(text) if (copy := _copied(step.text)) for source in copy.sources]
    local = [source for source in sources if not _URL.match(source) and "$" not in source]
    return sum(not _exists(tree, _join(folder, source)) for source in local)


def _exists(tree: Tree, path: str) -> bool:
    if path == ".":
        return True
    return any(name == path or name.startswith(f"{path}/") or fnmatch.fnmatchcase(name, path) for name in tree.files)


def _join(folder: str, source: str) -> str:
    return posixpath.normpath(posixpath.join(folder, source.lstrip("/")))


def _below(text: str, folder: str) -> str:
    """The text with the sources of every COPY, ADD and bind mount looked for below `folder`."""
    lines = text.splitlines()
    for step in reversed(instructions(text)):
        if (copy := _copied(step.text)) is not None:
            words = [source if _URL.match(source) else _join(folder, source) for source in copy.sources]
            words.append(copy.destination)
            written = json.dumps(words) if copy.as_json else " ".join(words)
            if not any("<<" in source for source in copy.sources):
                lines[step.first : step.last + 1] = [f"{copy.head} {written}"]
        elif step.word == "RUN" and "type=bind" in step.text:
            for number in range(step.first, step.last + 1):
                lines[number] = _MOUNT.sub(lambda mount: _bound_below(mount[0], folder), lines[number])
    return "\n".join(lines)


def _bound_below(mount: str, folder: str) -> str:
    options = mount.removeprefix("--mount=").split(",")
    if "type=bind" not in options or any(option.startswith("from=") for option in options):
        return mount
    given = {option.partition("=")[0] for option in options}
    moved = [
        f"{name}={_join(folder, value)}" if name in ("source", "src") else option
        for option in options
        for name, _, value in [option.partition("=")]
    ]
    return "--mount=" + ",".join(moved if given & {"source", "src"} else [*moved, f"source={folder}"])
