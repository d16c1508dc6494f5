"""What the steps of a build may use where the builders themselves keep no limit: processes, and all of it for BuildKit.

By control groups of our own engine, since only there we may write them; the limits of the classic builder's own
parameters (memory, cpus) are in builds.py.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from sandbox.cgroups import mounts
from sandbox.engine import owner, owner_is_alive
from sandbox.errors import SandboxUnavailable
from sandbox.locks import exclusive
from sandbox.streams import Deadline
from sandbox.types import BuildLimits

logger = logging.getLogger(__name__)

PERIOD_US = 100_000
PATIENCE_S = 10
_CONTROLLERS = ("pids", "memory", "cpu")
_PREFIX = "build-"
_numbers = itertools.count()


def socket_of(client: docker.DockerClient) -> Path | None:
    """The unix socket that a client talks to; None for another kind of address."""
    # The client forgets its own address; the adapter that it made from it does not.
    path = getattr(client.api._custom_adapter, "socket_path", None)
    return Path(path) if path else None


def groups_of(client: docker.DockerClient) -> StepGroups | None:
    """The control groups of our own engine; None when it is another's, or when we are not root.

    Raises SandboxUnavailable when there are no control groups where there should be some.
    """
    socket = socket_of(client)
    if socket is None or os.geteuid() != 0:
        return None
    try:
        pid = int((socket.parent / "docker.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        found = mounts(Path(f"/proc/{pid}/mountinfo").read_text())
    except (OSError, ValueError):
        return None
    if os.path.basename(command[0]) != "dockerd":
        return None
    # The engine may have mounted them for itself alone.
    seen = {f"/proc/{pid}/root{one.target}": one for one in found if one.type in ("cgroup", "cgroup2")}
    first = {name: Path(path) for path, one in seen.items() if one.type == "cgroup" for name in one.options.split(",")}
    second = [Path(path) for path, one in seen.items() if one.type == "cgroup2"]
    if missing := [name for name in _CONTROLLERS if name not in first and (first or not second)]:
        raise SandboxUnavailable(f"the engine has no control groups for {', '.join(missing)}")
    parent = next((b for a, b in itertools.pairwise(command) if a == "--cgroup-parent"), "docker")
    return StepGroups(
        controllers={name: first[name] if first else second[0] for name in _CONTROLLERS},
        roots=tuple(map(Path, seen)),
        parent=socket.parent.name,
        buildkit=f"{parent.strip('/')}/buildkit",
        lock=socket.parent / "buildkit.lock",
    )


@dataclass(frozen=True)
class StepGroups:
    """The control groups of the steps of one engine."""

    controllers: dict[str, Path]
    """Root of the hierarchy of each controller; all the same in version 2."""
    roots: tuple[Path, ...]
    """Roots of all hierarchies."""
    parent: str
    """Group below which the classic builder's steps run."""
    buildkit: str
    """Group below which BuildKit runs its steps, all builds together."""
    lock: Path

    @contextmanager
    def of_classic(self, limits: BuildLimits) -> Iterator[str]:
        """The path of a group for the steps of one build, which limits their processes. Raises SandboxUnavailable."""
        # A colon ends a field where the kernel lists groups.
        name = f"{self.parent}/{_PREFIX}{owner().replace(':', '_')}-{next(_numbers)}"
        try:
            with _writing(name):
                self._limit(name, "pids", limits)
            yield f"/{name}"
        finally:
            self._remove(name)

    @contextmanager
    def of_buildkit(self, limits: BuildLimits) -> Iterator[None]:
        """Let one build of BuildKit at a time run below these limits; no step of it is left at the end.

        Raises SandboxUnavailable.
        """
        with exclusive(self.lock, "BuildKit"):
            with _writing(self.buildkit):
                for controller in _CONTROLLERS:
                    self._limit(self.buildkit, controller, limits)
            try:
                yield
            finally:
                self._end_steps()

    def remove_dead(self) -> int:
        """Remove the groups of builds whose driver is dead; returns how many there were."""
        found = {path.name for root in self.roots for path in (root / self.parent).glob(f"{_PREFIX}*")}
        dead = [name for name in found if not owner_is_alive(_owner_of(name))]
        for name in dead:
            self._remove(f"{self.parent}/{name}")
        return len(dead)

    @property
    def _second(self) -> bool:
        return (self.controllers["pids"] / "cgroup.controllers").exists()

    def _limit(self, name: str, controller: str, limits: BuildLimits) -> None:
        root = self.controllers[controller]
        group = root / name
        group.mkdir(parents=True, exist_ok=True)
        if self._second:
            # A group has the files of a controller when all groups above it hand it on.
            for above in [*reversed(group.relative_to(root).parents)]:
                (root / above / "cgroup.subtree_control").write_text(f"+{controller}")
        quota = int(limits.cpus * PERIOD_US)
        memory = str(limits.memory_mb << 20)
        match controller:
            case "pids":
                (group / "pids.max").write_text(str(limits.pids))
            case "cpu" if self._second:
                (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            case "cpu":
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
            case _ if self._second:
                (group / "memory.max").write_text(memory)
                (group / "memory.swap.max").write_text("0")
            case _:
                _limit_memory(group, memory)

    def _end_steps(self) -> None:
        """BuildKit ends its steps when its client goes, and usually at once."""
        patience = Deadline(PATIENCE_S)
        while (left := self._steps()) and patience.left > 0:
            if patience.left < PATIENCE_S / 2:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        if left:
            logger.warning("%d processes of a build cannot be ended", len(left))

    def _steps(self) -> list[int]:
        found: list[int] = []
        for group in (self.controllers["pids"] / self.buildkit).glob("*/"):
            with contextlib.suppress(OSError):  # it went meanwhile
                found += [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
        return found

    def _remove(self, name: str) -> None:
        """Remove a group from all hierarchies; its last process may still be going."""
        patience = Deadline(PATIENCE_S)
        for root in self.roots:
            group = root / name
            while group.is_dir():
                try:
                    for inner in group.glob("*/"):
                        inner.rmdir()
                    group.rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    if patience.left < 0:
                        logger.warning("a control group stays: %s", error)
                        break
                    time.sleep(0.02)


def _limit_memory(group: Path, memory: str) -> None:
    """Memory and memory+swap: the second must never be the lower one, so it goes out of the way first."""
    swap = group / "memory.memsw.limit_in_bytes"
    if swap.exists():
        swap.write_text("-1")
    (group / "memory.limit_in_bytes").write_text(memory)
    if swap.exists():
        swap.write_text(memory)


def _owner_of(name: str) -> str:
    return name.removeprefix(_PREFIX).rpartition("-")[0].replace("_", ":")


@contextmanager
def _writing(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(f"the limits of a build cannot be set in the control group {name}: {error}") from error
