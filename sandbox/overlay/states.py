"""Frozen states on disk: one directory each, which holds the changes to an image.

Copying and laying over is in upper.py; which state is wanted for how long is the caller's decision.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from sandbox.engine import owner, owner_is_alive
from sandbox.errors import SandboxUnavailable
from sandbox.overlay.upper import remove_tree

# Such names are no references: folders of states that are being made or removed.
_PASSING = "."
_CHANGES = "changes"
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@contextlib.contextmanager
def _disk_call() -> Iterator[None]:
    """Turns a failure of the disk into SandboxUnavailable."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(f"the frozen states on this disk: {error}") from error


class States:
    """The states of one data folder. Safe for several threads and processes; every method raises SandboxUnavailable."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._left: set[Path] = set()
        """Discarded, but not removed yet since a sandbox stood on it."""

    @_disk_call()
    def new(self) -> Path:
        """Where to put changes of which `keep` is to make a state; its parent says whose they are until then."""
        self._place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._clear()
        made = self._place / f"{_PASSING}{owner()}~{secrets.token_hex(8)}"
        made.mkdir()
        return made / _CHANGES

    @_disk_call()
    def keep(self, changes: Path, reference: str) -> None:
        """Make a state of what was put where `new` said; one of that name is replaced. ValueError for a bad name."""
        target = self._folder(reference)
        while True:
            try:
                changes.rename(target)
                break
            except OSError:
                if not target.exists():
                    raise
                self.discard(reference)
        changes.parent.rmdir()

    @_disk_call()
    def drop(self, changes: Path) -> None:
        """Remove what was begun where `new` said."""
        remove_tree(changes.parent)

    @staticmethod
    def hold(changes: str) -> int | None:
        """Keep a state's files where they are, even if it is discarded, until the descriptor is closed.

        None for changes that are not on this disk. A sandbox that stands on them would see them vanish one by one.
        """
        try:
            held = os.open(changes, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return None
        fcntl.flock(held, fcntl.LOCK_SH)
        return held

    def find(self, reference: str) -> Path | None:
        """Directory of the changes of a state; None when it is gone."""
        folder = self._folder(reference)
        return folder if folder.is_dir() else None

    @_disk_call()
    def references(self) -> set[str]:
        """Of all states."""
        if not self._place.is_dir():
            return set()
        return {path.name for path in self._place.iterdir() if not path.name.startswith(_PASSING)}

    @_disk_call()
    def discard(self, reference: str) -> None:
        """Remove a state; nothing when it is gone. What a sandbox stands on is removed when that has ended."""
        folder = self._folder(reference)
        if not folder.exists():
            return
        dead = self.new()
        try:
            folder.rename(dead)
        except FileNotFoundError:
            dead.parent.rmdir()
            return
        self._left.add(dead)
        self._clear()

    @_disk_call()
    def reap(self) -> None:
        """Remove what dead processes were making or removing, unless a sandbox stands on it."""
        for path in self._place.iterdir() if self._place.is_dir() else ():
            ended = path.name.startswith(_PASSING) and not owner_is_alive(path.name[1:].partition("~")[0])
            if ended and not _is_held(path / _CHANGES):
                remove_tree(path)

    def _clear(self) -> None:
        for dead in [dead for dead in self._left.copy() if not _is_held(dead)]:
            remove_tree(dead.parent)
            self._left.discard(dead)

    def _folder(self, reference: str) -> Path:
        check_reference(reference)
        return self._place / reference


def _is_held(changes: Path) -> bool:
    try:
        held = os.open(changes, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(held)
    return False


def check_reference(reference: str) -> None:
    """ValueError for a reference that no state can have."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{reference!r} cannot name a state: use up to 128 letters, digits, '_', '.' and '-'")
