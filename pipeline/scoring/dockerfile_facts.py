"""What a Dockerfile says that lets its build succeed or fail, as numbers. No image and no package is looked up.

Which Dockerfile of a tree is meant, and how, is decided in own_dockerfile.py; all other features are in features.py.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
from collections.abc import Iterable

from pipeline.checkout import Tree
from pipeline.own_dockerfile import OwnDockerfile, find_all
from sandbox.building.dockerfile_text import Instruction, Stage, instructions, stages

_MAX_READ = 2**18
_MAX_SOURCES = 200

_FAMILIES = {
    "debian": ("debian", "ubuntu", "buildpack-deps"),
    "alpine": ("alpine",),
    "redhat": ("centos", "fedora", "rockylinux", "almalinux", "redhat", "ubi", "amazonlinux", "oraclelinux"),
    "python": ("python", "pypy", "miniconda3", "conda", "uv"),
    "node": ("node", "bun", "deno"),
    "go": ("golang",),
    "java": ("openjdk", "eclipse-temurin", "maven", "gradle", "amazoncorretto", "jdk", "tomcat"),
    "php": ("php", "composer"),
    "server": ("nginx", "httpd", "caddy", "traefik", "postgres", "mysql", "mariadb", "redis"),
}
_OLDEST_ALIVE: dict[str, tuple[int, ...]] = {
    # The oldest versions that got updates in 2026.
    "debian": (11,),
    "ubuntu": (22, 4),
    "alpine": (3, 20),
    "python": (3, 10),
    "node": (20,),
    "golang": (1, 24),
    "php": (8, 2),
    "fedora": (42,),
    "openjdk": (11,),
    "maven": (3, 8),
    "gradle": (8,),
    "ruby": (3, 2),
    "nginx": (1, 26),
    "centos": (99,),  # all of them are gone
}
_DEAD_NAMES = re.compile(
    r"\b(?:wheezy|jessie|stretch|buster|trusty|xenial|bionic|focal|precise|artful|cosmic|disco|eoan|groovy|hirsute"
    r"|impish|kinetic|lunar|mantic)\b"
)
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_REGISTRY = re.compile(r"^(?P<host>[^/]*[.:][^/]*)/")
_PUBLIC = ("docker.io", "gcr.io", "ghcr.io", "quay.io", "mcr.microsoft.com", "public.ecr.aws", "registry.k8s.io")
_COPY = re.compile(r"\s*(?:COPY|ADD)\s+((?:--[\w-]+(?:=\S+)?\s+)*)(.+)", re.IGNORECASE | re.DOTALL)
_REMOTE = re.compile(r"[a-z]+://|git@|<<", re.IGNORECASE)
_PIPED = re.compile(r"\b(?:curl|wget)\b[^|\n]{0,500}\|\s*(?:sudo\s+)?(?:ba|da|z)?sh\b")
_FETCHED = re.compile(r"\b(?:curl|wget)\s")
_ARG = re.compile(r"\s*ARG\s+\w+\s*$", re.IGNORECASE)
_BUILDKIT = re.compile(r"--mount=|--network=|--security=|<<-?['\"]?\w|--link\b|--chmod=|--parents\b|--exclude=")
_APT = re.compile(r"\bapt(?:-get)?\s+(?:-\S+\s+)*install\s+([^&|;\n]+)")
_PIP = re.compile(r"\bpip3?\s+install\s+([^&|;\n]+)")
_NPM = re.compile(r"\b(?:npm\s+(?:i|install|add)|yarn\s+add|pnpm\s+add)\s+([^&|;\n]+)")
_APK = re.compile(r"\bapk\s+add\s+([^&|;\n]+)")

_NONE = dict.fromkeys(
    (
        *(f"base_{family}" for family in (*_FAMILIES, "other", "scratch")),
        *(
            "tag_pinned",
            "digest_pinned",
            "end_of_life",
            "private_registry",
            "variable_base",
            "stages",
            "runs",
            "copies",
        ),
        *(
            "sources_missing",
            "adds_remote",
            "pinned_apt",
            "pinned_pip",
            "pinned_npm",
            "system_packages",
            "pipes_to_shell",
        ),
        *("git_clone", "downloads", "argument_without_value", "secret_mount", "buildkit", "depth", "variants", "lines"),
    ),
    0.0,
)


def dockerfile_facts(tree: Tree) -> dict[str, float]:
    """Facts of the Dockerfile that is likeliest to build the project; all 0 without one, `has_dockerfile` too."""
    found = find_all(tree)
    if not found:
        return {"has_dockerfile": 0.0, **{f"docker_{name}": value for name, value in _NONE.items()}}
    text = tree.read(found[0].path, max_bytes=_MAX_READ).decode("utf-8-sig", "replace").replace("\r\n", "\n")
    facts = _NONE | _facts(text, found[0], tree) | {"variants": float(len(found))}
    return {"has_dockerfile": 1.0, **{f"docker_{name}": value for name, value in facts.items()}}


def _facts(text: str, own: OwnDockerfile, tree: Tree) -> dict[str, float]:
    steps = instructions(text)
    built = stages(text)
    commands = "\n".join(step.text for step in steps if step.word == "RUN")
    facts = _base_facts(built)
    facts |= {
        "stages": float(len(built)),
        "runs": float(sum(step.word == "RUN" for step in steps)),
        "copies": float(sum(step.word in ("COPY", "ADD") for step in steps)),
        "sources_missing": _missing_share(steps, own.context, tree),
        "adds_remote": float(any(_REMOTE.match(source) for step in steps for source in _sources(step))),
        "pinned_apt": _pinned(_APT.findall(commands), "="),
        "pinned_pip": _pinned(_PIP.findall(commands), "=="),
        "pinned_npm": _pinned(_NPM.findall(commands), "@"),
        "system_packages": float(len(_packages([*_APT.findall(commands), *_APK.findall(commands)]))),
        "pipes_to_shell": float(_PIPED.search(commands) is not None),
        "git_clone": float("git clone" in commands),
        "downloads": float(len(_FETCHED.findall(commands))),
        "argument_without_value": float(sum(_ARG.match(step.text) is not None for step in steps)),
        "secret_mount": float(bool(re.search(r"type=(?:secret|ssh)", commands))),
        "buildkit": float(_BUILDKIT.search("\n".join(step.text for step in steps)) is not None),
        "depth": float(own.path.count("/")),
        "lines": float(len(steps)),
    }
    return facts


def _base_facts(built: list[Stage]) -> dict[str, float]:
    """Of the bases that come from elsewhere: what the last one is, and the worst of them all."""
    names = {stage.name for stage in built}
    bases = [stage.base for stage in built if stage.base.lower() not in names] or ["scratch"]
    last = bases[-1]
    return {
        f"base_{_family(last)}": 1.0,
        "tag_pinned": sum(_is_pinned(base) for base in bases) / len(bases),
        "digest_pinned": float(any("@sha256:" in base for base in bases)),
        "end_of_life": float(any(_is_dead(base) for base in bases)),
        "private_registry": float(any(_is_private(base) for base in bases)),
        "variable_base": float(any("$" in base for base in bases)),
    }


def _image(base: str) -> tuple[str, str]:
    """Last part of the image's name, and its tag."""
    name, _, tag = base.partition("@")[0].rpartition("/")[2].partition(":")
    return name.lower(), tag.lower()


def _family(base: str) -> str:
    name, _ = _image(base)
    if name == "scratch":
        return "scratch"
    return next((family for family, images in _FAMILIES.items() if name in images), "other")


def _is_pinned(base: str) -> bool:
    tag = _image(base)[1]
    return base == "scratch" or "@sha256:" in base or bool(tag and tag != "latest" and "$" not in tag)


def _is_dead(base: str) -> bool:
    name, tag = _image(base)
    if _DEAD_NAMES.search(tag):
        return True
    version = _VERSION.match(tag.removeprefix("v"))
    oldest = _OLDEST_ALIVE.get(name)
    if oldest is None or version is None:
        return name == "centos"
    numbers = tuple(int(part[:6]) for part in version[0].split("."))
    return numbers < oldest[: len(numbers)]


def _is_private(base: str) -> bool:
    registry = _REGISTRY.match(base)
    return registry is not None and not registry["host"].endswith(_PUBLIC)


def _sources(step: Instruction) -> list[str]:
    """What a COPY or ADD takes from the context or from elsewhere; nothing where it takes it from another stage."""
    match = _COPY.match(step.text)
    if match is None or "--from=" in match[1].lower():
        return []
    rest = match[2].strip()
    if not rest.startswith("["):
        return rest.split()[:-1]
    try:
        words = json.loads(rest)
    except ValueError:
        return []
    return [str(word) for word in words[:-1]] if isinstance(words, list) else []


def _missing_share(steps: Iterable[Instruction], context: str, tree: Tree) -> float:
    """Of the sources that are named plainly."""
    sources = (source for step in steps for source in _sources(step))
    named = [one for one in sources if not _REMOTE.match(one) and "$" not in one][:_MAX_SOURCES]
    missing = sum(not _exists(tree, posixpath.normpath(posixpath.join(context, one.lstrip("/")))) for one in named)
    return missing / len(named) if named else 0.0


def _exists(tree: Tree, path: str) -> bool:
    if path == "." or path in tree.files:
        return True
    if re.search(r"[*?\[]", path):
        # A pattern that names nothing but optional files is how people write "if it is there".
        return any(fnmatch.fnmatchcase(name, path) or fnmatch.fnmatchcase(name, f"{path}/*") for name in tree.files)
    return any(name.startswith(f"{path}/") for name in tree.files)


def _packages(lists: Iterable[str]) -> list[str]:
    words = [word for one in lists for word in one.replace("\\", " ").split()]
    return [word.strip("\"'") for word in words if not word.startswith(("-", "$", ".", "/", ">")) and word[0].isalnum()]


def _pinned(lists: Iterable[str], sign: str) -> float:
    """Share of the packages with a version; 0 where none is named."""
    packages = _packages(lists)
    return sum(sign in package[1:] for package in packages) / len(packages) if packages else 0.0
