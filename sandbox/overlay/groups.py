"""The control groups of sandboxes: which hierarchies there are, what a group says, and removing what is left over.

Standard library only. Groups are made and filled by the runtime.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from sandbox.cgroups import Mount, missing_mounts, mounts
from sandbox.overlay import syscalls

TOP = "touchstone"


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


def oom_kills(group: Path) -> int:
    """How many processes of a group the kernel has killed for memory."""
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(FileNotFoundError):
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
