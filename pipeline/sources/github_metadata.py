"""What search says of a repository, what of it is kept, and how promising that is before anything is downloaded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipeline.types import Language, Record

SEARCHED: Final[Mapping[Language, str]] = {
    "go": "Go",
    "cpp": "C++",
    "c": "C",
    "html": "HTML",
    "java": "Java",
    "javascript": "JavaScript",
    "php": "PHP",
    "python": "Python",
}
"""The languages by the names that the hub gives them."""

_EXECUTION = re.compile(
    r"^(?:"
    r"(?:docker|container)file.*|.*\.dockerfile|(?:docker-)?compose.*\.ya?ml|\.devcontainer"  # images
    r"|.*\.(?:sh|bash|zsh|ps1|bat)|.*\.(?:md|markdown|rst)|scripts?|bin"  # what is run, and what says how
    r"|(?:gnu)?makefile.*|.*\.(?:mk|cmake|gradle|kts|csproj|sln)|cmakelists\.txt|configure(?:\.ac|\.in)?|meson.*"
    r"|build(?:\.bazel|\.xml)?|workspace|justfile|rakefile|taskfile\.ya?ml|tox\.ini|noxfile\.py|pom\.xml|gradlew|mvnw"
    r"|package\.json|pyproject\.toml|setup\.(?:py|cfg)|requirements.*\.txt|pipfile|environment\.ya?ml|go\.mod"
    r"|composer\.json|cargo\.toml|gemfile|conanfile.*|vcpkg\.json"  # build configuration
    r"|.*[.-]lock(?:\.json|\.ya?ml)?|.*\.lockb?|go\.sum|npm-shrinkwrap\.json|pnpm-lock\.yaml"  # locks
    r"|\.github|\.gitlab-ci\.yml|\.travis\.yml|\.circleci|jenkinsfile|appveyor\.yml|azure-pipelines\.yml"
    r")$",
    re.IGNORECASE,
)


class Found(Record):
    """A repository as search describes it: what matters for running it, and nothing of persons."""

    id: int
    node_id: str
    full_name: str
    clone_url: str
    language: Language
    created_at: str
    """ISO time in UTC, as the hub writes it."""
    pushed_at: str
    size_kb: int
    """With its history, compressed; 0 for an empty one."""
    stars: int
    license: str | None
    default_branch: str
    state: str
    """`usual`, or why it is none to be built: archived, fork, mirror, disabled, empty."""


class UnreadableAnswer(ValueError):
    """An item of the hub lacks what every repository has."""


def found(item: Mapping[str, Any], language: Language) -> Found:
    """An item of a page of search. Raises UnreadableAnswer that names the field."""
    try:
        return Found(
            id=item["id"],
            node_id=item["node_id"],
            full_name=item["full_name"],
            clone_url=item["clone_url"],
            language=language,
            created_at=item["created_at"],
            # A repository that never got a push has none; its creation stands for it.
            pushed_at=item["pushed_at"] or item["created_at"],
            size_kb=item["size"],
            stars=item["stargazers_count"],
            license=(item.get("license") or {}).get("spdx_id"),
            default_branch=item["default_branch"],
            state=_state(item),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableAnswer(f"the hub describes a repository without {error}") from error


def _state(item: Mapping[str, Any]) -> str:
    if item.get("disabled"):
        return "disabled"
    if item["archived"]:
        return "archived"
    if item["fork"]:
        return "fork"
    if item.get("mirror_url"):
        return "mirror"
    return "usual" if item["size"] else "empty"


def metadata_score(one: Found) -> float:
    """How promising a repository is, from 0 to 1, by what search says of it alone; the same for the same answer.

    Half for a size at which projects are whole and still build in minutes, the rest for a licence, for users, and for
    work that went on after the first month.
    """
    if one.state != "usual":
        return 0.0
    # Best between 64 KB and 16 MB, nothing left at 1 KB and at 1 GB.
    octaves = math.log2(max(one.size_kb, 1))
    size = max(0.0, min(1.0, octaves / 6, (20 - octaves) / 6))
    users = min(1.0, math.log10(1 + one.stars) / 3)
    lasted = one.pushed_at[:7] > one.created_at[:7]
    return round(0.5 * size + 0.2 * bool(one.license and one.license != "NOASSERTION") + 0.2 * users + 0.1 * lasted, 4)


def execution_files(names: Iterable[str]) -> tuple[str, ...]:
    """Of the names in a repository's root, those that matter for running it: Dockerfiles, scripts, build, locks, CI."""
    return tuple(name for name in names if _EXECUTION.match(name))
