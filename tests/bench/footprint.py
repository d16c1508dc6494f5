"""What sandboxes can leave on a machine: everything of that kind that is there now, by kind and by name.

Other users of the machine make such things too, so one look says little. `left_since` compares two and waits: what
others use comes and goes, what was left stays.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import docker

from sandbox.engine import owner, owner_is_alive
from sandbox.overlay.keeper import name_to_owner
from sandbox.protocol import Backend

PATIENCE_S = 120.0
"""How long what others use, and what is removed in the background, may stay."""
PAUSE_S = 0.5
RUNTIMES = ("containerd-shim", "runc", "crun")
SHARED_FOLDERS = (Path("/run"), Path("/tmp"), Path("/dev/shm"))


@dataclass(frozen=True)
class Footprint:
    """Names that differ for things that differ: a process has its start time beside its number, a file its inode."""

    processes: frozenset[str]
    """In sandboxes, below the driver, orphans of its session, or of an OCI runtime."""
    mounts: frozenset[str]
    """In the namespaces of the driver, of its children and of the engine."""
    cgroups: frozenset[str]
    network: frozenset[str]
    """Devices, and namespaces that a process is in."""
    containers: frozenset[str]
    states: frozenset[str]
    files: frozenset[str]

    def __sub__(self, other: Footprint) -> Footprint:
        return Footprint(**{one.name: getattr(self, one.name) - getattr(other, one.name) for one in fields(self)})

    def __and__(self, other: Footprint) -> Footprint:
        return Footprint(**{one.name: getattr(self, one.name) & getattr(other, one.name) for one in fields(self)})

    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        return {one.name: len(getattr(self, one.name)) for one in fields(self)}

    def lines(self) -> list[str]:
        """Each thing with its kind."""
        return [f"{one.name}: {name}" for one in fields(self) for name in sorted(getattr(self, one.name))]

    def __bool__(self) -> bool:
        return any(self.counts().values())


def look(backend: Backend, client: docker.DockerClient, engine_socket: Path, data: Path) -> Footprint:
    """What is there now. Needs root to see all of it."""
    table = processes()
    # An engine outside of our container has no number here, and what it mounts cannot be seen.
    engine = [table[pid] for pid in (_listener(engine_socket),) if pid in table]
    watched = [*family(os.getpid(), table), *engine]
    containers = client.api.containers(all=True)
    return Footprint(
        processes=frozenset(_of_sandboxes(table)),
        mounts=frozenset(_mounts_of(watched)),
        cgroups=frozenset(folder for process in watched for folder in _cgroups(process)),
        network=frozenset(_network()),
        containers=frozenset(f"{one['Names']} {one['Id']}" for one in containers),
        states=frozenset(backend.states()),
        files=frozenset(_files(data)),
    )


def left_since(before: Footprint, look_again: Callable[[], Footprint]) -> Footprint:
    """What is new since `before` and stays."""
    left = look_again() - before
    end = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < end:
        time.sleep(PAUSE_S)
        left = left & look_again()
    return left


@dataclass(frozen=True)
class Process:
    """One line of the table of processes."""

    pid: int
    name: str
    parent: int
    session: int
    start: int
    """Clock ticks since boot: tells apart processes that had the same number."""
    namespaces: tuple[int | None, int | None]
    """Of pids and of mounts; None when it is ending."""


def processes() -> dict[int, Process]:
    """Every process of the machine by its number."""
    found = (_process(folder) for folder in Path("/proc").iterdir() if folder.name.isdigit())
    return {process.pid: process for process in found if process}


def family(pid: int, table: dict[int, Process]) -> list[Process]:
    """A process and all that descend from it."""
    return [process for process in table.values() if process.pid == pid or pid in _ancestors(process.pid, table)]


def _process(folder: Path) -> Process | None:
    """None when it is gone."""
    try:
        text = (folder / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces and brackets: the other fields start after the last bracket.
    fields_after = text[text.rindex(")") + 2 :].split()
    return Process(
        pid=int(folder.name),
        name=text[text.index("(") + 1 : text.rindex(")")],
        parent=int(fields_after[1]),
        session=int(fields_after[3]),
        start=int(fields_after[19]),
        namespaces=(_namespace(folder, "pid"), _namespace(folder, "mnt")),
    )


def _namespace(process: Path, kind: str) -> int | None:
    try:
        return os.stat(process / "ns" / kind).st_ino
    except OSError:
        return None


def _ancestors(pid: int, table: dict[int, Process]) -> Iterator[int]:
    while pid in table and (pid := table[pid].parent) > 1:
        yield pid


def _of_sandboxes(table: dict[int, Process]) -> Iterator[str]:
    here = os.stat("/proc/self/ns/pid").st_ino
    ours = {process.pid for process in family(os.getpid(), table)}
    drivers = {process.pid for process in table.values() if process.pid not in ours and process.name == "unshare"}
    theirs = {process.pid for process in table.values() if drivers & set(_ancestors(process.pid, table))}
    for process in table.values():
        reasons = {
            "below the driver": process.pid in ours,
            # What another driver that lives has started is below the program that started its keeper.
            "in a sandbox": process.namespaces[0] not in (None, here) and process.pid not in theirs,
            "an orphan": process.parent == 1 and process.session == os.getsid(0),
            "a runtime": process.name.startswith(RUNTIMES),
        }
        if why := [reason for reason, holds in reasons.items() if holds]:
            yield f"{process.pid} {process.name} since {process.start}, {' and '.join(why)}"


def _mounts_of(watched: list[Process]) -> Iterator[str]:
    """Mounts of each mount namespace that one of these processes is in."""
    for namespace, process in {process.namespaces[1]: process for process in watched}.items():
        try:
            lines = Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines()
        except OSError:
            continue  # gone meanwhile, and what only it had mounted with it
        for line in lines:
            number, _, device, _, target = line.split()[:5]
            yield f"{target} ({device}, number {number} in {namespace})"


def _cgroups(process: Process) -> Iterator[str]:
    """All control groups as this process sees them: an engine of ours has mounts of its own for them."""
    root = Path(f"/proc/{process.pid}/root")
    for folder, _, _ in os.walk(root / "sys/fs/cgroup"):
        path = Path(folder).relative_to(root)
        # Below an engine's group for BuildKit are the steps of whoever builds; the group itself stays with the engine.
        if not _of_another_driver(path) and "buildkit" not in path.parts:
            yield f"/{path}"


def _of_another_driver(group: Path) -> bool:
    """Whether a living driver that is not this one has the group: it keeps one for as long as it lives."""
    before, _, after = str(group).partition("/touchstone/")
    whose = name_to_owner(after.partition("/")[0])
    return bool(before and after) and whose != owner() and owner_is_alive(whose)


def _network() -> Iterator[str]:
    for device in Path("/sys/class/net").iterdir():
        try:
            yield f"device {device.name} {(device / 'ifindex').read_text().strip()}"
        except OSError:
            continue  # gone meanwhile, or no device: /sys/class/net/bonding_masters
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                yield f"namespace {os.stat(process / 'ns' / 'net').st_ino}"
            except OSError:
                continue


def _files(data: Path) -> Iterator[str]:
    for place in (data / "overlay", *SHARED_FOLDERS):
        pattern = "*touchstone*" if place in SHARED_FOLDERS else "*/*"
        for path in place.glob(pattern):
            try:
                yield f"{path} {path.lstat().st_ino}"
            except FileNotFoundError:
                continue


def _listener(path: Path) -> int:
    """The process that listens at a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", answer)[0])
