"""What a template is rendered from: a description of one build that repairs may change, and the Dockerfile it becomes.

Which recipe a repository gets is in dockerfiles.py, how a failed one is changed in repairs.py. The shell and the
scripts of the templates lie in `templates/`; `@words@` in a Dockerfile there are filled in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pipeline.checkout import Tree
from pipeline.types import Language, Repository
from sandbox.types import ImageSpec

TEMPLATES = Path(__file__).with_name("templates")

_MAX_TEXT = 2**20
"""Bytes read of a file that decides something."""

SCRIPTS: Mapping[str, str] = {
    "c": "build_c.py",
    "go": "build_go.py",
    "java": "build_java.py",
    "npm": "install_npm.js",
    "php": "install.php",
    "python": "install_python.py",
}
"""The file of `templates/` that a template runs from /tmp."""

_HEAD = """\
FROM @toolchain@
@install@COPY . @workdir@
WORKDIR @workdir@
@clean@@environment@"""
# The tree may be older or newer than the package lists of the toolchain, and a package may be gone altogether.
_INSTALL = """\
RUN export DEBIAN_FRONTEND=noninteractive; \\
    install() { apt-get install -y -qq --no-install-recommends "$@" > /dev/null; }; \\
    printf '%s\\n' @packages@ | sort > /tmp/wanted; \\
    apt-cache pkgnames | sort > /tmp/known; \\
    comm -23 /tmp/wanted /tmp/known | sed 's/^/there is no package /'; \\
    packages=$(comm -12 /tmp/wanted /tmp/known); rm /tmp/wanted /tmp/known; \\
    if [ -n "$packages" ]; then \\
      install $packages || { apt-get update -qq && install $packages; } \\
      || for package in $packages; do install "$package" || echo "not installed: $package"; done; \\
    fi
"""
_PYTHON = "{ command -v python3 > /dev/null || apt-get install -y -qq python3 > /dev/null; }"


class Toolchain(Protocol):
    """Gives the tag of the image that has the tools of a language; ValueError for a version that cannot be had."""

    def __call__(self, language: Language, version: str | None = None, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """One build, described. Equal recipes give equal Dockerfiles."""

    repository: Repository
    template: str
    """Name of a file in `templates/`."""
    version: str | None = None
    """Version of the toolchain, as its language counts them; None for the usual one."""
    packages: frozenset[str] = frozenset()
    """Debian packages; those that do not exist are passed over."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the steps see and the image keeps."""
    words: tuple[tuple[str, str], ...] = ()
    """What stands in the template for `@word@`."""
    folder: str = ""
    """Folder of the tree that holds the project; empty for its root."""

    def with_packages(self, *packages: str) -> Recipe:
        return replace(self, packages=self.packages | set(packages))

    def with_words(self, **words: str) -> Recipe:
        return replace(self, words=tuple(sorted((dict(self.words) | words).items())))

    def with_environment(self, **variables: str) -> Recipe:
        return replace(self, environment=tuple(sorted((dict(self.environment) | variables).items())))

    def word(self, name: str) -> str:
        """Empty when there is none of this name."""
        return dict(self.words).get(name, "")


def text_of(tree: Tree, name: str) -> str:
    """The text of a file, empty when there is none."""
    if name not in tree.files:
        return ""
    return tree.read(name, max_bytes=_MAX_TEXT).decode("utf-8", "replace").replace("\r\n", "\n")


def spec_of(repository: Repository, tree: Path, dockerfile: str, files: Mapping[str, str]) -> ImageSpec:
    """What the builder gets: the stored tree as context, `files` over it."""
    return ImageSpec(
        name=repository.name,
        dockerfile=dockerfile,
        context=tree,
        context_sha256=tree.stem,
        context_files=dict(files),
        workdir=workdir_of(repository),
    )


def workdir_of(repository: Repository) -> str:
    return f"/workspace/{repository.name}"


def ignore_files(tree: Tree) -> dict[str, str]:
    """What makes a .dockerignore harmless: agents see the whole tree, documents and the .dockerignore as well."""
    if ".dockerignore" not in tree.files:
        return {}
    return {".dockerignore": "", ".touchstone/dockerignore": text_of(tree, ".dockerignore")}


def clean_step(repository: Repository, ignore: Mapping[str, str]) -> str:
    """Shell, run in the tree, that takes out our files and, of Debian packages, what is not upstream's."""
    ours = [".touchstone", ".touchstone.Dockerfile"]
    if repository.full_name.startswith("debian/"):
        ours += ["debian", ".pc"]
    restore = "mv -f .touchstone/dockerignore .dockerignore && " if ignore else ""
    return f"{restore}rm -rf {' '.join(ours)}"


def render(recipe: Recipe, tree: Tree, toolchain: Toolchain) -> tuple[str, dict[str, str]]:
    """The Dockerfile and the files that lie over the tree. Raises ValueError for a toolchain that cannot be had."""
    repository = recipe.repository
    language = repository.language
    ignore = ignore_files(tree)
    script = SCRIPTS[recipe.template]
    scripts = {f".touchstone/{script}": (TEMPLATES / script).read_text(encoding="utf-8")}
    steps = [*(f"mv {path} /tmp/" for path in scripts), clean_step(repository, ignore), _PYTHON]
    packages = " ".join(sorted(recipe.packages))
    workdir = workdir_of(repository)
    words = {
        "install": _INSTALL.replace("@packages@", packages) if packages else "",
        "clean": f"RUN {' && '.join(steps)}\n",
        "environment": "".join(f'ENV {name}="{value}"\n' for name, value in recipe.environment),
        "toolchain": toolchain(language, recipe.version) if recipe.version else toolchain(language),
        "workdir": workdir,
        "project": f"{workdir}/{recipe.folder}".rstrip("/"),
        "folder": recipe.folder or ".",
        "name": repository.name,
        "options": "",
        "modules": "",
        "libraries": "",
        **dict(recipe.words),
    }
    text = _HEAD + (TEMPLATES / f"{recipe.template}.Dockerfile").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text, ignore | scripts
