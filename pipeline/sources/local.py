"""Directories and git clones on this machine, named in the configuration.

Of a git repository only the tracked files count (pipeline/git_tree.py), of a plain directory all of them. Rows and
reasons name paths relative to the configuration file, never this machine's folders.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field

from pipeline import git_tree
from pipeline.checkout import CheckoutConfig, Collected, collect, printable, store
from pipeline.directory_tree import walk
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.types import Checkout, Language, Repository, content_id

logger = logging.getLogger(__name__)

UNRECOGNISED: Language = "python"
"""Where a directory without any known language is listed: a row needs a stream, and there `fetch` gives the reason."""

_EXTENSIONS: Mapping[str, Language] = {
    ".go": "go",
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".html", ".htm", ".css"), "html"),
    ".java": "java",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    ".php": "php",
    ".py": "python",
}


class LocalPath(BaseModel):
    """One directory or git repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    """Relative to the configuration file."""
    language: Language | None = None
    """Recognised by the file names when left out."""
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name on the rows; the last part of the path when left out."""


class LocalConfig(BaseModel):
    """Which directories."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[LocalPath, ...] = ()
    """In the order of their rows."""


class LocalSource:
    """The listed directories as repositories."""

    def __init__(self, config: LocalConfig, checkout: CheckoutConfig, folder: Path) -> None:
        """`folder` is where the configuration file lies. Raises ConfigurationError for names or paths given twice."""
        self._checkout = checkout
        self._folder = folder.resolve()
        self._paths: dict[str, LocalPath] = {}
        names: set[str] = set()
        for entry in config.paths:
            locator = self._locator(entry)
            if locator in self._paths:
                raise ConfigurationError(f"local source: the path {entry.path} is listed twice; remove one")
            if self._name(entry) in names:
                raise ConfigurationError(
                    f"local source: two paths are called {self._name(entry)!r}; give one of them a `name`"
                )
            names.add(self._name(entry))
            self._paths[locator] = entry

    @property
    def name(self) -> str:
        return "local"

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """All of them: what changed has a new commit. A directory that cannot be read is listed as well.

        Raises ConfigurationError, before the first one is listed, when a path is no directory.
        """
        for locator, entry in self._paths.items():
            if not (self._folder / locator).is_dir():
                raise ConfigurationError(
                    f"local source: {entry.path} is no directory; paths are relative to the configuration file"
                )
        for locator, entry in self._paths.items():
            yield self._repository(locator, entry)

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `gone`, `changed`, `language_unknown` and the classes of `checkout.collect`."""
        root = self._folder / repository.locator
        entry = self._paths.get(repository.locator)
        if entry is None or not root.is_dir():
            raise ItemRejected("gone", f"{repository.locator} is not listed any more, or no directory any more")
        commit, tree = _read(root, self._checkout)
        if commit != repository.commit:
            raise ItemRejected(
                "changed", f"{repository.locator} changed since it was listed; the next run lists it anew"
            )
        if entry.language is None and _language(tree) is None:
            raise ItemRejected("language_unknown", "no file of a known language; give `language` in the configuration")
        return store(repository, tree, destination)

    def _repository(self, locator: str, entry: LocalPath) -> Repository:
        language = None
        try:
            commit, tree = _read(self._folder / locator, self._checkout)
            language = _language(tree)
        except ItemRejected as rejection:
            logger.warning("local source: %s will be refused: %s", locator, rejection)
            commit = content_id("refused", rejection.failure_class, rejection.reason)
        return Repository(
            source=self.name,
            full_name=f"local/{self._name(entry)}",
            commit=commit,
            language=entry.language or language or UNRECOGNISED,
            locator=locator,
        )

    def _locator(self, entry: LocalPath) -> str:
        return Path(os.path.relpath(self._folder / entry.path, self._folder)).as_posix()

    def _name(self, entry: LocalPath) -> str:
        return entry.name or printable((self._folder / entry.path).resolve().name)


def _read(root: Path, config: CheckoutConfig) -> tuple[str, Collected]:
    """Commit and tree of what stands at a path; a plain directory's commit is its hash. Raises ItemRejected."""
    directory = git_tree.git_directory(root)
    if directory is not None:
        return git_tree.read(root, directory, config)
    tree = collect(walk(root), config)
    return tree.sha256, tree


def _language(tree: Collected) -> Language | None:
    """The language with most bytes. Markup counts a quarter: it is wordy, and every project has some."""
    sizes: Counter[Language] = Counter()
    for member in tree.members.values():
        language = _EXTENSIONS.get(PurePosixPath(member.name).suffix.lower())
        if member.kind == "file" and language is not None:
            sizes[language] += member.size
    sizes["html"] //= 4
    if sizes["cpp"]:
        sizes["cpp"] += sizes.pop("c", 0)  # headers of C++ are called .h as well
    language, size = max(sizes.items(), key=lambda item: item[1])
    return language if size else None
