"""Keeps downloaded archives by their SHA-256, so that what was there once is there without a network.

One file per archive and, beside it, when it was really downloaded. Downloading is not done here.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pipeline.disk import sync
from pipeline.errors import InfrastructureFailure
from sandbox.locks import exclusive

logger = logging.getLogger(__name__)

CONTEXTS = "contexts"
"""Folder of the data folder that keeps the archives of external context."""


class ArchiveCache:
    """Archives below one folder. Safe to use from threads and from several processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def archive(self, sha256: str, download: Callable[[], bytes]) -> bytes:
        """The archive with this hash: the kept one, else what `download` gives, which is kept from now on.

        Of two callers that want the same one, the second waits for the first. `download` answers for the hash.
        Raises what it raises, and InfrastructureFailure for the disk.
        """
        try:
            with exclusive(self._folder / "locks" / sha256, f"the archive {sha256[:12]}"):
                if (kept := self._kept(sha256)) is not None:
                    return kept
                data = download()
                self._keep(sha256, data)
                return data
        except OSError as error:
            raise InfrastructureFailure(f"an archive could not be kept in the data folder: {error.strerror}") from error

    def retrieved_at(self, sha256: str) -> datetime | None:
        """When the kept archive was downloaded (UTC); None when none is kept."""
        try:
            return datetime.fromisoformat(json.loads(self._record(sha256).read_text())["retrieved_at"])
        except FileNotFoundError:
            return None

    def _record(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.json"

    def _kept(self, sha256: str) -> bytes | None:
        try:
            data = (self._folder / sha256).read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() == sha256 and self._record(sha256).exists():
            return data
        logger.warning("the kept archive %s was damaged; it is fetched anew", sha256[:12])
        return None

    def _keep(self, sha256: str, data: bytes) -> None:
        """The record first: an archive that is there has one."""
        now = datetime.now(UTC).isoformat()
        for path, content in (
            (self._record(sha256), json.dumps({"retrieved_at": now}).encode()),
            (self._folder / sha256, data),
        ):
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(content)
            sync(part)
            part.rename(path)
        sync(self._folder)
