"""Repository -> the Dockerfiles worth trying, best first: its own, then the template of its language.

In every image the tree lies at `/workspace/<name>` as a developer cloned it, the project is installed or built beside
it (under /usr/local, in a virtual environment …; only package managers of JavaScript and PHP put their folders into the
tree, and a JavaScript build what it makes), and bash, git, coreutils and python3 are there. Nothing is built
here, and no settings of package indexes are written here: both are the sandbox package's. What a recipe becomes is in
recipes.py, what is tried after a failure in repairs.py, which packages a tree asks for in prerequisites.py.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pipeline import own_dockerfile
from pipeline.checkout import Tree
from pipeline.prerequisites import go_packages, prerequisites
from pipeline.recipes import Recipe, Toolchain, clean_step, ignore_files, render, spec_of, text_of, workdir_of
from pipeline.task_formats.environment import image_spec
from pipeline.toolchain_versions import version_for
from pipeline.types import TASKS, Language, Repository
from sandbox.types import ImageSpec

logger = logging.getLogger(__name__)

Strategy = Literal["own_dockerfile", "template", "repaired", "model"]

TEMPLATE_OF: Mapping[Language, str] = {
    "c": "c",
    "cpp": "c",
    "go": "go",
    "html": "npm",
    "java": "java",
    "javascript": "npm",
    "php": "php",
    "python": "python",
}
# What marks the folder of a project where the root of the tree is none.
_MARKS: Mapping[str, tuple[str, ...]] = {
    "go": ("go.mod",),
    "npm": ("package.json",),
    "php": ("composer.json",),
    "python": ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
}
_GO_SUITE, _GO_OF_LIBRARIES = "trixie", "1.24"
_ASIDE = re.compile(
    r"(^|/)(tests?|testdata|fixtures|examples?|samples?|docs?|demos?|vendor|node_modules|third_party|\.[^/]+)(/|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One attempt at an image."""

    strategy: Strategy
    spec: ImageSpec
    recipe: Recipe | None = None
    """What the Dockerfile was rendered from; None when it was not rendered."""
    repairs: tuple[str, ...] = ()
    """Names of the rules that changed it, in their order."""


def candidates(repository: Repository, tree: Path, toolchain: Toolchain) -> list[Candidate]:
    """What to try for `repository`, in this order, until one builds.

    `tree` is the normalised tar of its files (named by its hash). Raises OSError or tarfile.TarError when `tree` is no
    stored tree.
    """
    if repository.source == TASKS:
        # Whoever wrote the task says what its image holds; a template would be another task.
        return [Candidate("own_dockerfile", image_spec(repository, tree))]
    files = Tree(tree)
    if repository.domain is not None:
        # Made by us to be worked in: neither its own files nor python3 have to be added to it.
        text = text_of(files, "Dockerfile")
        return [
            Candidate(
                "own_dockerfile",
                ImageSpec(
                    name=repository.name.replace("_", "-"), dockerfile=text, context=tree, context_sha256=tree.stem
                ),
            )
        ]
    found: list[Candidate] = []
    ignore = ignore_files(files)
    for own in own_dockerfile.find_all(files):
        text = own_dockerfile.extend(files, own, workdir_of(repository), clean_step(repository, ignore))
        found.append(Candidate("own_dockerfile", spec_of(repository, tree, text, ignore)))
    recipe = recipe_of(repository, files)
    try:
        rendered = render(recipe, files, toolchain)
    except ValueError as error:
        logger.info("%s: %s; the usual toolchain is taken", repository.full_name, error)
        recipe = replace(recipe, version=None)
        rendered = render(recipe, files, toolchain)
    found.append(Candidate("template", spec_of(repository, tree, *rendered), recipe))
    return found


def recipe_of(repository: Repository, tree: Tree) -> Recipe:
    """The template that fits the tree and what it asks for."""
    language = repository.language
    template = TEMPLATE_OF[language]
    folder = _folder(template, tree)
    recipe = Recipe(
        repository=repository,
        template=template,
        version=version_for(language, tree, folder),
        packages=frozenset(prerequisites(language, tree)),
        folder=folder,
    )
    if language == "php":
        return recipe.with_packages("phpab")
    if language == "html":
        # A page is there without what its build tools make of it.
        return recipe.with_words(options="--tolerant")
    if language == "go":
        go_mod = text_of(tree, f"{folder}/go.mod" if folder else "go.mod")
        path = _import_path(text_of(tree, "debian/control"), go_mod) or repository.name
        return _with_libraries(recipe.with_words(import_path=path), go_packages(tree))
    return recipe


def _folder(template: str, tree: Tree) -> str:
    """The folder of the project: the root where that says what it is, else the only likely one below it."""
    marks = _MARKS.get(template, ())
    if not marks or any(name in tree.files for name in marks):
        return ""
    found = {name.rpartition("/")[0] for name in tree.files if name.rpartition("/")[2] in marks}
    likely = [one for one in found if one.count("/") <= 1 and not _ASIDE.search(one)]
    return min(likely, key=lambda one: (one.count("/"), one), default="")


def _with_libraries(recipe: Recipe, libraries: list[str]) -> Recipe:
    """With Debian's libraries of Go: those of the newest stable release, and a toolchain that can compile them."""
    if not libraries:
        return recipe
    version = max(
        recipe.version or "", _GO_OF_LIBRARIES, key=lambda one: [int(part) for part in one.split(".") if part]
    )
    # The go.mod that stands in for the tree's own cannot be used in a workspace.
    recipe = replace(recipe, version=version).with_environment(GOWORK="off")
    return recipe.with_words(libraries=" ".join(libraries), options=f"--newer={_GO_SUITE}")


def _import_path(control: str, go_mod: str) -> str:
    """The import path of a Go tree as its packaging or else its go.mod names it."""
    found = re.search(r"^XS-Go-Import-Path:\s*([\w.~/-]+)", control, re.MULTILINE)
    found = found or re.search(r"^module\s+\"?([\w.~/-]+)", go_mod, re.MULTILINE)
    return found[1] if found else ""
