"""Who asks the proxy, and what each may reach. Standard library only. Connections are made in links.py.

The lists are files, so that a driver writes one while the proxy runs: `allowed` is the configuration's, `learned` holds
what our own recipes have reached: the package registries of this installation, whatever their names are.
"""

from __future__ import annotations

import hmac
import logging
import re
from pathlib import Path
from typing import Literal

from sandbox.egress.hosts import HostPattern, matching

logger = logging.getLogger(__name__)

ALLOWED, LEARNED, REGISTRY, TOKEN = "allowed", "learned", "registry", "token"
_BUILD = re.compile(r"build-[A-Za-z0-9._-]{1,80}")
_TRUSTED = re.compile(r"trusted-[A-Za-z0-9._-]{1,80}")
ENGINE = "engine"
Kind = Literal["build", "trusted", "engine"]


class Policy:
    """The rules of one data folder's proxy."""

    def __init__(self, folder: Path, token: str) -> None:
        self._token = token
        self._allowed = PatternFile(folder / ALLOWED)
        self._learned = PatternFile(folder / LEARNED)
        self.registry = registry(folder)

    def kind(self, user: str, secret: str) -> Kind | None:
        """As whom a client is served; None when it is not whom it says it is."""
        if _BUILD.fullmatch(user):
            return "build"
        if not hmac.compare_digest(secret.encode(), self._token.encode()):
            return None
        if _TRUSTED.fullmatch(user):
            return "trusted"
        return "engine" if user == ENGINE else None

    def allows(self, kind: Kind, host: str, port: int) -> bool:
        """Whether somebody may ask for a host; which addresses it may have is another question."""
        if kind != "build":
            return True
        return matching(self._allowed.patterns(), host, port) or matching(self._learned.patterns(), host, port)

    def may_be_private(self, kind: Kind, host: str, port: int) -> bool:
        """Whether a host may be in a private network: only those that a person named one by one."""
        exact = [pattern for pattern in self._allowed.patterns() if pattern.exact]
        # Our own recipes reach a named mirror on whatever port they are configured for.
        return any(one.matches(host, port) or (kind == "trusted" and one.host == host) for one in exact)

    def is_registry(self, kind: Kind, host: str, port: int) -> bool:
        """Whether the engine asks for the image registry of the configuration, which may be this very machine."""
        return kind == ENGINE and self.registry is not None and (host, port) == (self.registry.host, self.registry.port)

    def learn(self, kind: Kind, host: str, port: int) -> None:
        """Somebody reached a host: from now on builds may, too, when it was a recipe of ours."""
        if kind != "trusted" or matching(self._learned.patterns(), host, port):
            return
        pattern = HostPattern(host, None if port in (80, 443) else port)
        self._learned.append(pattern)
        logger.info("learned %s", pattern)


class PatternFile:
    """A list of patterns, one a line, that others may write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._patterns: list[HostPattern] = []

    def patterns(self) -> list[HostPattern]:
        """What the file says now; nothing when it is not there. A line that is no pattern allows nothing."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._patterns = None, []
            return []
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp != self._stamp:
            self._stamp, self._patterns = stamp, _read(self._path)
        return self._patterns

    def append(self, pattern: HostPattern) -> None:
        """Add one pattern."""
        with self._path.open("a") as file:
            file.write(f"{pattern}\n")


def registry(folder: Path) -> HostPattern | None:
    """The image registry that the engine of this folder was started for, None when there is none."""
    try:
        found = HostPattern.parse((folder / REGISTRY).read_text().strip())
    except FileNotFoundError:
        return None
    except ValueError as error:
        logger.error("the registry is passed over: %s", error)
        return None
    return found if found.port is not None else HostPattern(found.host, 443)


def _read(path: Path) -> list[HostPattern]:
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(HostPattern.parse(line.strip()))
        except ValueError as error:
            logger.error("a line of %s is passed over: %s", path.name, error)
    return found
