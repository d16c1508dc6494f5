"""Repository -> the Dockerfiles worth trying, best first: its own, then the template of its language.

In every image the tree lies at `/workspace/<name>` as a developer cloned it, the project is installed or built beside
it (under /usr/local, in a virtual environment …), and bash, git, coreutils and python3 are there. Nothing is built
here, and no settings of package indexes are written here: both are the sandbox package's. What a recipe becomes is in
recipes.py, what is tried after a failure in repairs.py, which packages a tree asks for in prerequisites.py.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline import own_dockerfile
from pipeline.checkout import Tree
from pipeline.prerequisites import prerequisites
from pipeline.recipes import Recipe, Toolchain, clean_step, ignore_files, render, spec_of, text_of, workdir_of
from pipeline.types import Language, Repository
from sandbox.types import ImageSpec

Strategy = Literal["own_dockerfile", "template", "repaired", "model"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One attempt at an image."""

    strategy: Strategy
    spec: ImageSpec
    recipe: Recipe | None = None
    """What the Dockerfile was rendered from; None when it was not rendered."""
    repairs: tuple[str, ...] = ()
    """Names of the rules that changed it, in their order."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`template` is taken for a tree of one of the `languages` that has one of the `files` (any tree when empty)."""

    languages: tuple[Language, ...]
    files: tuple[str, ...]
    template: str
    packages: tuple[str, ...] = ()
    """Debian packages that the template needs and the toolchain may lack."""


# The first rule that fits counts.
_RULES = (
    _Rule(("python",), (), "python"),
    _Rule(("javascript", "html"), (), "npm"),
    _Rule(("php",), (), "php", packages=("phpab",)),
    _Rule(("java",), (), "java"),
    _Rule(("go",), ("debian/control",), "go-debian"),
    _Rule(("go",), ("go.mod",), "go-modules"),
    _Rule(("c", "cpp"), ("CMakeLists.txt",), "cmake", packages=("cmake",)),
    _Rule(("c", "cpp"), ("configure", "configure.ac", "configure.in", "autogen.sh"), "autotools"),
    _Rule(("c", "cpp"), ("meson.build",), "meson", packages=("meson", "ninja-build")),
    _Rule(("c", "cpp"), ("Makefile", "makefile", "GNUmakefile"), "make"),
    _Rule(("go", "c", "cpp"), (), "plain"),
)
_EXTRAS = ("cli", "test", "tests")


def candidates(repository: Repository, tree: Path, toolchain: Toolchain) -> list[Candidate]:
    """What to try for `repository`, in this order, until one builds.

    `tree` is the normalised tar of its files (named by its hash). Raises OSError or tarfile.TarError when `tree` is no
    stored tree.
    """
    files = Tree(tree)
    found: list[Candidate] = []
    if (own := own_dockerfile.find(files)) is not None:
        ignore = ignore_files(files)
        text = own_dockerfile.extend(files, own, workdir_of(repository), clean_step(repository, ignore))
        found.append(Candidate("own_dockerfile", spec_of(repository, tree, text, ignore)))
    recipe = recipe_of(repository, files)
    found.append(Candidate("template", spec_of(repository, tree, *render(recipe, files, toolchain)), recipe))
    return found


def recipe_of(repository: Repository, tree: Tree) -> Recipe:
    """The template that fits the tree and what it asks for."""
    rule = _rule(repository.language, tree)
    control = text_of(tree, "debian/control")
    return Recipe(
        repository=repository,
        template=rule.template,
        packages=frozenset({*rule.packages, *prerequisites(repository.language, tree)}),
        words=(
            ("extras", _extras(tree)),
            ("import_path", _import_path(control, text_of(tree, "go.mod")) or repository.name),
        ),
    )


def _rule(language: Language, tree: Tree) -> _Rule:
    return next(
        rule
        for rule in _RULES
        if language in rule.languages and (not rule.files or any(name in tree.files for name in rule.files))
    )


def _import_path(control: str, go_mod: str) -> str:
    """The import path of a Go tree as its packaging or else its go.mod names it."""
    found = re.search(r"^XS-Go-Import-Path:\s*([\w.~/-]+)", control, re.MULTILINE)
    found = found or re.search(r"^module\s+\"?([\w.~/-]+)", go_mod, re.MULTILINE)
    return found[1] if found else ""


def _extras(tree: Tree) -> str:
    """The optional dependencies that make the documented programs and the tests work, as pip writes them."""
    try:
        project = tomllib.loads(text_of(tree, "pyproject.toml")).get("project", {})
    except tomllib.TOMLDecodeError:
        return ""  # pip will say what is wrong with it, on the row of the build.
    chosen = [name for name in _EXTRAS if name in project.get("optional-dependencies", {})]
    return f"[{','.join(chosen)}]" if chosen else ""
