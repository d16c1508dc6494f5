"""What each stage keeps in the data folder and in the engine, what of it nobody needs, and how that is removed.

Never removed: the working tables with all their old files, published versions (that is retention's work), trees that a
row names, images and states that a row needs. A stage is looked at and freed by itself; one that cannot be looked at
says why.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from pipeline.archive_cache import CONTEXTS
from pipeline.schemas import to_rows
from pipeline.snapshots.publishing import UNFINISHED, remove_version
from pipeline.stages.verifications import judged_states
from pipeline.tables import Store
from pipeline.types import Record
from sandbox.building.holding import holding
from sandbox.building.room import Room
from sandbox.errors import SandboxUnavailable
from sandbox.locks import claimed
from sandbox.protocol import Backend

logger = logging.getLogger(__name__)

OLD_S = 24 * 3600
"""A file that no row names may be that of an item in progress until it is so old."""
ALL_FREE_MB = 1 << 40


class CleaningConfig(Record):
    """What the nightly cleaning removes. Nothing of it is needed by a row or a version."""

    stages: tuple[Literal["images", "sources", "states", "journal", "snapshots"], ...] = (
        "images",
        "sources",
        "states",
        "journal",
        "snapshots",
    )
    """`images` only where the engine is ours: in another one those of other data folders may be needed."""
    free_mb: int = Field(default=50_000, gt=0)
    """Images and build caches stay as long as so much is free where the engine keeps them."""
    days: int = Field(default=30, gt=0)
    """Age from which the outputs of Dagster's steps go, and runs that materialized nothing."""


class StageUse(Record):
    """The disk of one stage."""

    stage: str
    held: int | None
    """Bytes; None when they cannot be seen."""
    freeable: int
    """Bytes that nobody needs, at least."""
    freed: int | None = None
    """Bytes that were removed, at least; None when nothing was asked for."""
    back: str
    """What it costs to have it again."""
    note: str = ""
    """What is worth knowing, or why it cannot be looked at."""


class _Found(NamedTuple):
    held: int | None
    freeable: int
    free: Callable[[], int | None]
    """Bytes that were removed, where that is not all of `freeable`."""


class Stage(NamedTuple):
    """One place where disk is used."""

    name: str
    back: str
    note: str
    look: Callable[[], _Found]
    named_only: bool = False
    """It is freed only when it is named: having it again may be impossible without a network."""


class Disk:
    """The stages of one data folder."""

    def __init__(
        self,
        store: Store,
        room: Callable[[], Room],
        backend: Callable[[], Backend],
        *,
        free_mb: int = ALL_FREE_MB,
    ) -> None:
        """`room` and `backend` are opened when they are needed; `free_mb` is enough space for the engine."""
        self._store = store
        self._root = store.root
        self._room = room
        self._backend = backend
        self._free_mb = free_mb
        self.stages = (
            Stage("images", "built or pulled again when a stage needs them, minutes each", "", self._images),
            Stage("archives", "downloaded again, while the network has them", "only with --stage archives",
                  self._archives, named_only=True),
            Stage("sources", "nothing: no row names them", "trees that a row names stay", self._sources),
            Stage("states", "nothing: their verdicts are recorded", "states without a verdict stay", self._states),
            Stage("tables", "-", "old files are never removed: a reader or a version may name them", self._tables),
            Stage("journal", "nothing: rows that are in the tables by now left empty pages", "", self._journal),
            Stage("snapshots", "nothing: publishers that were killed left them",
                  "old versions: `touchstone retain`", self._snapshots),
            Stage("other", "-", "the history of Dagster, programs of `make peers`, locks", self._other),
        )  # fmt: skip

    def look(self, names: Sequence[str] = ()) -> list[StageUse]:
        """What the named stages hold, all of them when none is named. Nothing is removed.

        Raises SandboxUnavailable for a stage that was named, as `free` does.
        """
        return [self._use(stage, free=False, named=bool(names)) for stage in self._chosen(names)]

    def free(self, names: Sequence[str] = (), *, goes_on: bool = False) -> list[StageUse]:
        """Remove what nobody needs from the named stages, from all but the costly ones when none is named.

        `goes_on`: a named stage that cannot be looked at says why, as others do, and the next one is freed.
        """
        return [
            self._use(stage, free=bool(names) or not stage.named_only, named=bool(names) and not goes_on)
            for stage in self._chosen(names)
        ]

    def _chosen(self, names: Sequence[str]) -> list[Stage]:
        return [stage for stage in self.stages if not names or stage.name in names]

    def _use(self, stage: Stage, *, free: bool, named: bool) -> StageUse:
        try:
            found = stage.look()
            freed = None
            if free:
                removed = found.free() if found.freeable else None
                freed = found.freeable if removed is None else removed
            return StageUse(
                stage=stage.name,
                held=found.held,
                freeable=found.freeable,
                freed=freed,
                back=stage.back,
                note=stage.note,
            )
        except (SandboxUnavailable, OSError, sqlite3.Error) as error:
            if named and isinstance(error, SandboxUnavailable):
                raise
            logger.warning("%s cannot be looked at: %s", stage.name, error)
            return StageUse(stage=stage.name, held=None, freeable=0, back=stage.back, note=f"cannot be freed: {error}")

    def _images(self) -> _Found:
        room = self._room()
        found = holding(room)

        def clean() -> int:
            logger.info("%s", room.clean(self._free_mb))
            return max(0, found.held - holding(room).held)

        return _Found(found.held, found.removable, clean)

    def _archives(self) -> _Found:
        """The records of when they were downloaded stay."""
        folder = self._root / CONTEXTS
        files = [path for path in _entries(folder) if path.is_file() and path.suffix == "" and path.name[0] != "."]
        return _Found(size_of(folder), sum(map(size_of, files)), lambda: _unlink(files))

    def _sources(self) -> _Found:
        folder = self._root / "sources"
        unnamed: list[Path] = []
        if not self._rows_wait():
            named = {f"{row['tree_sha256']}.tar" for row in to_rows(self._store.read("repositories", ["tree_sha256"]))}
            limit = time.time() - OLD_S
            unnamed = [path for path in _entries(folder) if path.name not in named and path.stat().st_mtime < limit]
        return _Found(size_of(folder), sum(map(size_of, unnamed)), lambda: _unlink(unnamed))

    def _states(self) -> _Found:
        folder = self._root / "overlay" / "states"
        judged = judged_states(self._store)
        backend = self._backend() if judged else None
        leaving = sorted(backend.states() & judged) if backend else []

        def discard() -> None:
            for reference in leaving:
                if backend is not None:
                    backend.discard(reference)

        return _Found(size_of(folder), sum(size_of(folder / reference) for reference in leaving), discard)

    def _tables(self) -> _Found:
        return _Found(size_of(self._root / "tables") - self._journal_size(), 0, _nothing)

    def _journal(self) -> _Found:
        with self._journal_file(write=False) as connection:
            if connection is None:
                return _Found(0, 0, _nothing)
            empty, size = (connection.execute(f"PRAGMA {one}").fetchone()[0] for one in ("freelist_count", "page_size"))

        def shrink() -> None:
            with self._journal_file(write=True) as opened:
                if opened is not None:
                    opened.execute("VACUUM")
                    opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        return _Found(self._journal_size(), empty * size, shrink)

    def _snapshots(self) -> _Found:
        folder = self._root / "snapshots"
        dead = [path for name in _entries(folder) for path in name.glob(f"{UNFINISHED}*")]
        dead = [path for path in dead if not self._is_publishing(path.parent.name)]

        def remove() -> None:
            for path in dead:
                with self._name_held(path.parent.name) as held:
                    if held and path.exists():
                        remove_version(path)

        return _Found(size_of(folder), sum(map(size_of, dead)), remove)

    def _other(self) -> _Found:
        known = {CONTEXTS, "sources", "tables", "snapshots", "docker", "docker.log"}
        states = size_of(self._root / "overlay" / "states")
        rest = sum(size_of(path) for path in _entries(self._root) if path.name not in known)
        return _Found(rest - states, 0, _nothing)

    def _rows_wait(self) -> bool:
        """Whether rows of a run, which may name files, are not in the tables yet."""
        with self._journal_file(write=False) as connection:
            return connection is not None and connection.execute("SELECT 1 FROM pending LIMIT 1").fetchone() is not None

    def _journal_size(self) -> int:
        return sum(size_of(path) for path in (self._root / "tables").glob("journal.sqlite*"))

    @contextlib.contextmanager
    def _journal_file(self, *, write: bool) -> Iterator[sqlite3.Connection | None]:
        path = self._root / "tables" / "journal.sqlite"
        if not path.is_file():
            yield None
            return
        mode = "rw" if write else "ro"
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=60)) as connection:
            yield connection

    def _is_publishing(self, name: str) -> bool:
        with self._name_held(name) as held:
            return not held

    def _name_held(self, name: str) -> AbstractContextManager[bool]:
        """Hold the lock of a name unless a publisher has it; whether it is held."""
        return claimed(self._store.lock(f"snapshot-{name}"))


def size_of(path: Path) -> int:
    """Bytes on disk of a file or of all files in a folder; links count for themselves, what vanishes for nothing."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    if not path.is_dir() or path.is_symlink():
        return status.st_blocks * 512
    return sum((size_of(one) for one in _entries(path)), status.st_blocks * 512)


def _entries(folder: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(folder.iterdir())
    return []


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _nothing() -> None:
    """Such a stage is never freed."""
