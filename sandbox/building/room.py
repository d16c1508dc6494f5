"""Room for builds on this machine: how many run at a time, and the free space that one needs before it starts.

All processes of a data folder share it, by lock files that end with their holders. What is removed to make space is in
cleaning.py, a build itself in builds.py.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import docker

from sandbox.building.cleaning import Cleaned, Cleaning
from sandbox.engine import address
from sandbox.errors import SandboxUnavailable
from sandbox.locks import exclusive
from sandbox.streams import engine_call
from sandbox.types import BuildLimits

logger = logging.getLogger(__name__)

POLL_S = 0.2
MB = 1 << 20
_numbers = itertools.count()


class OutOfSpace(SandboxUnavailable):
    """Less space is free than a build needs, also after cleaning up."""


@dataclass(frozen=True)
class Free:
    """What this machine has left; None for what cannot be told here."""

    cores: int
    memory_mb: int | None
    disk_mb: int | None
    """Where the engine keeps its layers."""


class Slots:
    """Who builds at the moment, among all processes that share a folder. Knows no engine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def taken(self, limits: BuildLimits, free: Callable[[], Free], alone: Callable[[], None]) -> Iterator[None]:
        """Wait for a place beside the builds that run, and hold it. Not to be taken twice by one thread.

        `alone` is called when no build runs, before this one starts; what it raises is raised here.
        """
        try:
            place = self._wait(limits, free, alone)
        except OSError as error:
            raise SandboxUnavailable(f"no place to build can be taken: {error}") from error
        with place:
            try:
                yield
            finally:
                Path(place.name).unlink(missing_ok=True)

    def _wait(self, limits: BuildLimits, free: Callable[[], Free], alone: Callable[[], None]) -> IO[str]:
        # Whoever waits for a place keeps the door shut: nobody who came later overtakes him.
        with exclusive(self._folder / "door.lock", "a place to build"):
            while running := self._running():
                if fits(limits, running, free()):
                    break
                time.sleep(POLL_S)
            else:
                alone()
            return self._take(limits)

    def _take(self, limits: BuildLimits) -> IO[str]:
        """A locked file that tells others what this build may use; the lock ends with the file or with this process."""
        path = self._folder / f"{os.getpid()}-{next(_numbers)}.slot"
        place = path.open("w")
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            place.write(limits.model_dump_json())
            place.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            place.close()
            raise
        return place

    def _running(self) -> list[BuildLimits]:
        """Limits of the builds that run; what a dead process left is removed."""
        found = []
        for place in sorted(self._folder.glob("*.slot")):
            try:
                with place.open() as handle:
                    try:
                        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    except BlockingIOError:
                        found.append(BuildLimits.model_validate_json(handle.read()))
                    else:
                        place.unlink(missing_ok=True)
            except FileNotFoundError:
                continue  # that build has just ended
        return found


def fits(limits: BuildLimits, running: list[BuildLimits], free: Free) -> bool:
    """Whether one more build may start beside those that run.

    One build a core, since most of them wait for the network half of the time. Memory and space count as still wanted
    by the builds that run, although they use some of it already: rather one build too few than a full disk.
    """
    if len(running) >= free.cores:
        return False
    if free.memory_mb is not None and sum(one.memory_mb for one in (limits, *running)) > free.memory_mb:
        return False
    return free.disk_mb is None or sum(one.disk_mb for one in (limits, *running)) <= free.disk_mb


class Room:
    """Room for builds in one engine. Safe for several threads and processes."""

    def __init__(self, client: docker.DockerClient, data: Path, *, keep: Callable[[], set[str]] | None = None) -> None:
        """`keep` gives the ids of images that are still needed and that no registry has; without it all are kept."""
        self._client = client
        self._data = data
        self._keep = keep
        self._slots = Slots(data / "images" / "slots")
        self._used = data / "images" / "used"
        self._root: Path | None = None
        self._asked = False
        self._guard = threading.Lock()

    @contextmanager
    def slot(self, limits: BuildLimits) -> Iterator[None]:
        """Hold a place for one build. Waits; one thread takes one place at a time.

        Raises OutOfSpace when less than `limits.disk_mb` is free and cannot be made free, SandboxUnavailable when the
        engine is gone.
        """
        with self._slots.taken(limits, self._free, lambda: self._make_space(limits.disk_mb)):
            yield

    def touch(self, image_id: str) -> None:
        """Remember that an image is in use: those that were not for the longest time are removed first."""
        try:
            self._used.mkdir(parents=True, exist_ok=True)
            (self._used / _file_name(image_id)).touch()
        except OSError as error:
            # On a full disk that image may be removed too early; that is no reason not to use it now.
            logger.warning("the use of an image cannot be noted: %s", error)

    def clean(self, free_mb: int) -> Cleaned:
        """Remove what nobody needs, the least recently used first, until `free_mb` are free or nothing of it is left.

        Where the engine's disk cannot be seen all of it is removed. Raises SandboxUnavailable.
        """
        return self._clean(free_mb, building=True)

    def _clean(self, free_mb: int, *, building: bool) -> Cleaned:
        owned = (chosen := address(self._data)) is not None and chosen.owned
        cleaning = Cleaning(self._client, owned=owned, last_used=self._last_used, keep=self._keep)

        def missing() -> int:
            there = self._disk_mb()
            return free_mb * MB if there is None else (free_mb - there) * MB

        cleaned = cleaning.run(missing, building=building)
        if cleaned.images or cleaned.cache_bytes:
            logger.info("made space: %d images and %d MB of the build cache", cleaned.images, cleaned.cache_bytes // MB)
        self._forget_removed()
        return cleaned

    def _make_space(self, needed_mb: int) -> None:
        """Called when no build runs, and none can start."""
        there = self._disk_mb()
        if there is None or there >= needed_mb:
            return
        logger.warning("%d MB are free in %s, a build needs %d: cleaning up", there, self._root, needed_mb)
        self._clean(needed_mb, building=False)
        if (there := self._disk_mb() or 0) < needed_mb:
            raise OutOfSpace(
                f"a build needs {needed_mb} MB in {self._root}, and {there} MB are free after cleaning up; "
                "make space there, or lower disk_mb"
            )

    def _free(self) -> Free:
        return Free(cores=os.cpu_count() or 1, memory_mb=_available_memory_mb(), disk_mb=self._disk_mb())

    def _disk_mb(self) -> int | None:
        """Free space where the engine keeps its layers; None when that is not on this machine."""
        with self._guard:
            if not self._asked:
                with engine_call("asking the engine where it keeps images"):
                    root = Path(str(self._client.api.info().get("DockerRootDir") or "/nonexistent"))
                self._root, self._asked = (root if root.is_dir() else None), True
                if self._root is None:
                    logger.info(
                        "the engine keeps its images in %s, which cannot be seen here: no free-space gate", root
                    )
        if self._root is None:
            return None
        try:
            found = os.statvfs(self._root)
        except OSError as error:
            raise SandboxUnavailable(f"the free space of {self._root} cannot be read: {error}") from error
        return found.f_bavail * found.f_frsize // MB

    def _last_used(self, image_id: str) -> float | None:
        try:
            return (self._used / _file_name(image_id)).stat().st_mtime
        except FileNotFoundError:
            return None

    def _forget_removed(self) -> None:
        """Marks of images that are gone."""
        if not self._used.is_dir():
            return
        with engine_call("listing images"):
            there = {_file_name(image_id) for image_id in self._client.api.images(all=True, quiet=True)}
        for mark in self._used.iterdir():
            if mark.name not in there:
                mark.unlink(missing_ok=True)


def _available_memory_mb() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) // 1024 if found else None


def _file_name(image_id: str) -> str:
    return image_id.removeprefix("sha256:")
