"""Locks between processes and threads, kept by the kernel: they end with their holder, so a kill leaves none behind.

Not here: locks between machines. The data folder belongs to one machine.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)


@contextmanager
def exclusive(path: Path, purpose: str) -> Iterator[None]:
    """Hold `path` as a lock file; wait while another process or thread holds it, and say so in the log.

    `purpose` names what is locked, for that log line. The file stays: removing it would let two holders in.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for %s: another process holds %s", purpose, path)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Hold `path` as a lock file if nobody else does, and say whether; nobody waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
