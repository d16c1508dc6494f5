"""Task folders of other programs on this machine: Harbor's and those of Terminal-Bench 1, each one a repository.

What such a folder says is read in pipeline/task_formats. A folder that cannot become a task is refused when it is
fetched, before anything is built of it, and its row says why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pipeline import task_formats
from pipeline.checkout import CheckoutConfig, Collected, Tree, collect, printable, store
from pipeline.directory_tree import walk
from pipeline.errors import ConfigurationError, ItemRejected
from pipeline.types import LANGUAGES, TASKS, Checkout, Language, Repository, content_id

logger = logging.getLogger(__name__)

USUAL: Language = "python"
"""The stream of tasks that are about no language of a repository: their verifiers are written in it."""


class TaskFoldersPath(BaseModel):
    """One task folder, or a folder of task folders."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    """Relative to the configuration file."""


class TaskFoldersConfig(BaseModel):
    """Which folders."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[TaskFoldersPath, ...] = ()
    """In the order of their rows."""


class TaskFolderSource:
    """The listed task folders as repositories."""

    def __init__(self, config: TaskFoldersConfig, checkout: CheckoutConfig, folder: Path) -> None:
        """`folder` is where the configuration file lies."""
        self._paths = tuple(entry.path for entry in config.paths)
        self._checkout = checkout
        self._folder = folder.resolve()

    @property
    def name(self) -> str:
        return TASKS

    def repositories(self, since: datetime | None) -> Iterator[Repository]:
        """All of them: what changed has a new commit. A folder that cannot be read is listed as well.

        Raises ConfigurationError, before the first one is listed, when a path holds no task folder or one twice.
        """
        found = [place for path in self._paths for place in self._places(path)]
        for index, (_, root) in enumerate(found):
            if any(root == other for _, other in found[:index]):
                raise ConfigurationError(f"task folders: {root.name} is listed twice; remove one of its paths")
        for full_name, root in found:
            yield self._repository(full_name, root)

    def fetch(self, repository: Repository, destination: Path) -> Checkout:
        """As in `Source`; rejects with `gone`, `changed`, and the classes of `checkout.collect` and `task_formats`."""
        root = self._folder / repository.locator
        if not _is_task(root):
            raise ItemRejected("gone", f"{repository.locator} is no task folder any more")
        tree = self._tree(root)
        if tree.sha256 != repository.commit:
            raise ItemRejected(
                "changed", f"{repository.locator} changed since it was listed; the next run lists it anew"
            )
        checkout = store(repository, tree, destination)
        task_formats.read(Tree(destination / f"{checkout.tree_sha256}.tar"))
        return checkout

    def _places(self, path: Path) -> list[tuple[str, Path]]:
        root = (self._folder / path).resolve()
        if _is_task(root):
            return [(f"{TASKS}/{printable(root.name)}", root)]
        inner = sorted(child for child in root.iterdir() if _is_task(child)) if root.is_dir() else []
        if not inner:
            raise ConfigurationError(
                f"task folders: {path} is no task folder and holds none ({' or '.join(task_formats.MARKS)} marks one); "
                "paths are relative to the configuration file"
            )
        return [(f"{TASKS}/{printable(root.name)}/{printable(child.name)}", child) for child in inner]

    def _repository(self, full_name: str, root: Path) -> Repository:
        language = USUAL
        try:
            tree = self._tree(root)
            commit = tree.sha256
        except ItemRejected as rejection:
            logger.warning("task folders: %s will be refused: %s", full_name, rejection)
            commit = content_id("refused", rejection.failure_class, rejection.reason)
        else:
            language = _language(tree)
        return Repository(
            source=self.name,
            full_name=full_name,
            commit=commit,
            language=language,
            locator=Path(os.path.relpath(root, self._folder)).as_posix(),
        )

    def _tree(self, root: Path) -> Collected:
        return collect(walk(root), self._checkout)


def _is_task(root: Path) -> bool:
    return any((root / mark).is_file() for mark in task_formats.MARKS)


def _language(tree: Collected) -> Language:
    """What an export of ours says, so that its tasks are in the stream that they came from."""
    member = tree.members.get(task_formats.MARKS[0])
    said = member.read() if member is not None and member.kind == "file" else b""
    return next((one for one in LANGUAGES if f'\nlanguage = "{one}"\n'.encode() in said), USUAL)
