"""The control groups of sandboxes: which hierarchies there are, what a group says, and removing what is left over.

Standard library only. Groups are made and filled by the runtime.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from sandbox.cgroups import Mount, missing_mounts, mounts
from sandbox.overlay import syscalls

TOP = "touchstone"
READY_S, PAUSE_S = 0.3, 0.006


def prepare() -> list[Path]:
    """Mount the hierarchies that this mount namespace lacks; the roots of those in use. Raises OSError."""
    for missing in missing_mounts(Path("/proc/self/cgroup").read_text(), _mountinfo()):
        Path(missing.target).mkdir(parents=True, exist_ok=True)
        syscalls.mount(missing.type, missing.target, missing.options)
    found = [mount for mount in mounts(_mountinfo()) if mount.type in ("cgroup", "cgroup2")]
    if any(mount.type == "cgroup" for mount in found):
        # Beside the first version the second has no controllers, and some runtimes refuse the mixture. They make
        # folders in its place all the same, which must not be made in what lies below the mount, for all to see.
        for mount in found:
            if mount.type == "cgroup2":
                syscalls.unmount(mount.target)
                syscalls.mount("tmpfs", mount.target, "mode=755")
    return [Path(mount.target) for mount in found]


def _mountinfo() -> str:
    return Path("/proc/self/mountinfo").read_text()


def root_of(controller: str) -> Path:
    """Root of the hierarchy with a controller. Raises FileNotFoundError when no hierarchy has it."""
    for mount in mounts(_mountinfo()):
        if _has(mount, controller):
            return Path(mount.target)
    raise FileNotFoundError(f"no control group hierarchy has the controller {controller}")


def _has(mount: Mount, controller: str) -> bool:
    if mount.type == "cgroup":
        return controller in mount.options.split(",")
    return mount.type == "cgroup2" and controller in (Path(mount.target) / "cgroup.controllers").read_text().split()


class Readiness:
    """Keeps the kernel ready to move processes between groups while sandboxes come and go one after another.

    The first move after a pause waits until no processor is in the middle of a fork: an RCU grace period, which on an
    idle machine is 8 to 20 ms, half of what a start takes. Moves that follow each other do not wait. So this process
    is moved to where it is every few milliseconds, for a moment after each use, unless there are other sandboxes, whose
    starts do the same.
    """

    def __init__(self) -> None:
        line = next((one for one in Path("/proc/self/cgroup").read_text().splitlines() if _names(one, "pids")), "")
        self._file = root_of("pids") / line.rpartition(":")[2].lstrip("/") / "cgroup.procs"
        self._until = 0.0
        self._wanted = threading.Event()
        self.alone = True
        """Whether there is at most one sandbox."""
        threading.Thread(target=self._run, daemon=True).start()

    def use(self) -> None:
        """A start is near, or may be."""
        self._until = time.monotonic() + READY_S
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            while time.monotonic() < self._until:
                if self.alone:
                    # Where that is not allowed a start takes longer, and nothing else is different.
                    with contextlib.suppress(OSError):
                        self._file.write_text("0")
                time.sleep(PAUSE_S)
            self._wanted.clear()


def _names(line: str, controller: str) -> bool:
    """Whether a line of /proc/self/cgroup is of the hierarchy with a controller, or of the second version's."""
    return controller in line.split(":")[1].split(",") or line.startswith("0::")


def oom_kills(group: Path) -> int:
    """How many processes of a group the kernel has killed for memory."""
    for name in ("memory.events", "memory.oom_control"):
        # The file of the other version is not there; that of a group that goes meanwhile says that it is no device.
        with contextlib.suppress(OSError):
            for line in (group / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def remove_group(root: Path, owner: str, name: str) -> None:
    """Remove one empty group of one hierarchy, or what stands for it; one with processes stays."""
    group = root / TOP / owner / name
    with contextlib.suppress(OSError):
        # In a hierarchy the files go with their folder, and cannot be removed.
        group.rmdir()
        return
    with contextlib.suppress(OSError):
        for file in group.iterdir():
            file.unlink()
        group.rmdir()


def owners(roots: list[Path]) -> list[str]:
    """Names of the keepers that have groups."""
    return sorted(
        {path.name for root in roots if (root / TOP).is_dir() for path in (root / TOP).iterdir() if path.is_dir()}
    )


def remove(roots: list[Path], owner: str) -> int:
    """Remove the empty groups of one keeper; how many sandboxes they were of. Groups with processes stay."""
    names = set()
    for root in roots:
        top = root / TOP / owner
        with contextlib.suppress(FileNotFoundError):
            for group in [path for path in top.iterdir() if path.is_dir()]:
                names.add(group.name)
                remove_group(root, owner, group.name)
            with contextlib.suppress(OSError):
                top.rmdir()
    return len(names)
