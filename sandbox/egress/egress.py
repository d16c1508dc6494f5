"""The driver's side of the proxy beside our engine: what builds are told, what they may reach, what they did not get.

The proxy itself is in proxy.py. A foreign engine has none: its builds have whatever network it gives them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docker

from sandbox.egress.events import REACHED, read_events
from sandbox.egress.hosts import HostPattern, canonical, matching
from sandbox.egress.policy import ALLOWED, LEARNED, TOKEN, PatternFile
from sandbox.engine import REMEDY, address
from sandbox.errors import SandboxUnavailable
from sandbox.streams import engine_call

FOLDER = "egress"
GATEWAY = "198.18.0.1"
"""Our engine's end of its bridge, in the range reserved for tests of network equipment; infra/engine.sh gives it."""
PORT = 3128
PROCESS = "proxy.pid"
"""File beside the engine's socket, written by the proxy once it serves."""
RECIPES = "trusted-recipes"
_NAMES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


@dataclass(frozen=True)
class HostFailure:
    """One host that a build asked for and did not get."""

    host: str
    outcome: str
    """The last one: `refused`, `unresolved`, `unreachable` or `status` (it answered, with errors only)."""
    reached_today: bool
    """Whether anybody reached it on this day (UTC): if not, our network may be to blame."""


class Egress:
    """What builds on one engine may reach. Safe for several threads and processes."""

    def __init__(self, folder: Path, restricted: bool, proxy: Path | None = None) -> None:
        """`folder` is shared with the proxy, and `proxy` the file with its process number, where there is one.

        For `restricted` see `of`, which makes one of these.
        """
        self._folder = folder
        self._proxy = proxy
        self.restricted = restricted
        """Whether builds reach nothing but allowed hosts; False for a foreign engine."""

    @classmethod
    def of(cls, data: Path, client: docker.DockerClient) -> Egress:
        """That of the engine which was chosen for a data folder. Raises SandboxUnavailable."""
        chosen = address(data)
        with engine_call("asking the engine for its proxy"):
            proxy = str(client.api.info().get("HttpProxy") or "")
        folder = data.absolute() / FOLDER
        if chosen is None or chosen.egress is None or not proxy.rstrip("/").endswith(f"@{GATEWAY}:{PORT}"):
            return cls(folder, restricted=False)
        return cls(chosen.egress, restricted=True, proxy=chosen.socket.parent / PROCESS)

    def variables(self, who: str) -> dict[str, str]:
        """Environment for the build `who` (`build-` and an id of letters, digits, `.`, `_` and `-`) of a repository.

        Docker knows these names: as build arguments they need no declaration, and neither the cache nor the image's
        history has them. Empty for a foreign engine. Raises SandboxUnavailable when the proxy has ended.
        """
        return self._variables(f"{who}:x")

    def trusted(self) -> dict[str, str]:
        """The same for our own recipes and for what fetches sources: any public host, remembered as allowed.

        Raises SandboxUnavailable.
        """
        if not self.restricted:
            return {}
        try:
            token = (self._folder / TOKEN).read_text().strip()
        except OSError as error:
            raise SandboxUnavailable(f"the token of the engine's proxy cannot be read ({error}); {REMEDY}") from error
        return self._variables(f"{RECIPES}:{token}")

    def allow(self, hosts: Sequence[str]) -> None:
        """Make these the configured hosts: `example.org`, `*.example.org`, `example.org:8443`, from now on.

        A host that stands there by its own name may be in a private network. Raises ValueError for what is no host.
        """
        text = "".join(f"{pattern}\n" for pattern in dict.fromkeys(map(HostPattern.parse, hosts)))
        path = self._folder / ALLOWED
        if path.is_file() and path.read_text() == text:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{ALLOWED}.{secrets.token_hex(4)}")
        new.write_text(text)
        os.replace(new, path)

    def allows(self, host: str, port: int = 443) -> bool:
        """Whether builds of repositories may ask for a host: what the engine itself fetches for them is asked here."""
        if not self.restricted:
            return True
        try:
            name = canonical(host)
        except ValueError:
            return False
        return any(matching(PatternFile(self._folder / file).patterns(), name, port) for file in (ALLOWED, LEARNED))

    def failures(self, who: str) -> list[HostFailure]:
        """The hosts that a build asked for and did not get, in the order of the last time it asked."""
        today = datetime.now(UTC).date().isoformat()
        last: dict[str, str] = {}
        got: set[str] = set()
        reached: set[str] = set()
        for event in read_events(self._folder):
            if event.time.startswith(today) and event.outcome in REACHED:
                reached.add(event.host)
            if event.who != who:
                continue
            if event.outcome == "ok":
                got.add(event.host)
            last.pop(event.host, None)
            last[event.host] = event.outcome
        return [HostFailure(host, outcome, host in reached) for host, outcome in last.items() if host not in got]

    def _variables(self, user: str) -> dict[str, str]:
        if not self.restricted:
            return {}
        if self._proxy is not None and not _runs(self._proxy):
            raise SandboxUnavailable(
                f"the proxy of the engine does not run, without which builds reach nothing; {REMEDY}"
            )
        proxy = dict.fromkeys(_NAMES, f"http://{user}@{GATEWAY}:{PORT}")
        return proxy | dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")


def _runs(proxy: Path) -> bool:
    try:
        command = Path("/proc", proxy.read_text().strip(), "cmdline").read_bytes()
    except OSError:
        return False
    return str(proxy).encode() in command.split(b"\0")
