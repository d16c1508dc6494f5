"""An image registry for tests: Debian's docker-registry, on the loopback device that an engine sees as its own, or
on this machine's address."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from sandbox.engine import address
from sandbox.locks import exclusive

PACKAGE = "docker-registry"
_LISTENING = re.compile(r"listening on \S+:(\d+)")
LOOPBACK = "127.0.0.1"


def program(data: Path) -> Path:
    """The registry's program: the installed one, else unpacked from Debian's package below the data folder."""
    if (installed := shutil.which(PACKAGE)) is not None:
        return Path(installed)
    place = data / "cache" / PACKAGE
    found = place / "usr" / "bin" / PACKAGE
    with exclusive(data / "cache" / f"{PACKAGE}.lock", "the registry's package"):
        if not found.exists():
            fetched = place.with_suffix(".deb")
            fetched.mkdir(parents=True, exist_ok=True)
            subprocess.run(["apt-get", "-q", "download", PACKAGE], cwd=fetched, check=True, timeout=120)
            package = next(fetched.glob("*.deb"))
            subprocess.run(["dpkg", "-x", str(package), str(place)], check=True, timeout=60)
            shutil.rmtree(fetched)
    return found


def network_of(data: Path) -> Path:
    """The network namespace in which the engine of a data folder lives; our own where that engine is not ours."""
    engine = address(data)
    pid_file = engine.socket.parent / "docker.pid" if engine else Path()
    pid = pid_file.read_text().strip() if pid_file.is_file() else "self"
    return Path(f"/proc/{pid}/ns/net")


def own_address() -> str | None:
    """An address of this machine that is not its loopback device's; None without any network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation; nothing is sent
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith("127.") else found


class TestRegistry:
    """One storage, served at the same address in each of some network namespaces."""

    __test__ = False

    def __init__(self, binary: Path, folder: Path, networks: Iterable[Path], host: str = LOOPBACK) -> None:
        self._binary = binary
        self._folder = folder
        self._networks: list[Path] = []
        for network in networks:
            if not any(os.path.samefile(network, known) for known in self._networks):
                self._networks.append(network)
        self._host = host
        self._port = 0
        self._servers: list[subprocess.Popen[str]] = []
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """`host:port`, the same in all namespaces and after a stop."""
        return f"{self._host}:{self._port}"

    def start(self) -> None:
        """Serve. A port that is free in the first namespace is chosen once; the others are asked for the same."""
        for network in self._networks:
            self._serve(network)

    def stop(self) -> None:
        """End the servers; the images stay."""
        for server in self._servers:
            server.kill()
            server.wait(timeout=10)
        self._servers.clear()

    def _serve(self, network: Path) -> None:
        settings = self._folder / "settings.json"
        # JSON is YAML too.
        settings.write_text(
            json.dumps(
                {
                    "version": 0.1,
                    "log": {"level": "info", "accesslog": {"disabled": True}},
                    "storage": {"filesystem": {"rootdirectory": str(self._folder / "images")}},
                    "http": {"addr": self.address, "secret": "of no use to anybody"},
                }
            )
        )
        server = subprocess.Popen(
            [*_entering(network), str(self._binary), "serve", str(settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._servers.append(server)
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if match := _LISTENING.search(line):
                self._port = int(match[1])
                threading.Thread(target=_drain, args=(server.stderr,), daemon=True).start()
                return
        raise AssertionError("the registry did not start: " + "".join(said[-3:]))


def _drain(stream: IO[str]) -> None:
    for _ in stream:
        pass


def _entering(network: Path) -> Sequence[str]:
    return [] if os.path.samefile(network, "/proc/self/ns/net") else ["nsenter", f"--net={network}"]
