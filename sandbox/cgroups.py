"""Which control-group layout a Linux machine has, read from the text of /proc files.

Standard library only: `infra/bootstrap.sh` asks it before anything is installed. Nothing is mounted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ROOT = "/sys/fs/cgroup"
Layout = Literal["v1", "hybrid", "v2", "none"]


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo, or one mount that is missing there."""

    type: str
    """File system type, e.g. `cgroup2`."""
    options: str
    """Options of the super block, e.g. `rw,memory`."""
    target: str
    """Mount point, escapes resolved."""


def mounts(mountinfo: str) -> list[Mount]:
    """Mounts in the order of mounting. Lines without the ` - ` separator are no mounts and are passed over."""
    found = []
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        if separator:
            target = before.split(" ")[4].encode().decode("unicode_escape")
            kind, _source, options = after.split(" ", 2)
            found.append(Mount(type=kind, options=options, target=target))
    return found


def layout(mountinfo: str) -> Layout:
    """What is mounted: controllers on version 1, on version 2, on 1 beside a version 2 tree (`hybrid`), or nothing."""
    found = mounts(mountinfo)
    first = any(mount.type == "cgroup" for mount in found)
    second = any(mount.type == "cgroup2" for mount in found)
    if first:
        return "hybrid" if second else "v1"
    return "v2" if second else "none"


def missing_mounts(cgroup: str, mountinfo: str) -> list[Mount]:
    """Mounts that a container engine needs and this mount namespace lacks, in the order to make them.

    `cgroup` is the text of /proc/self/cgroup: it names every version 1 hierarchy that the kernel has, mounted or not.
    A machine on which no hierarchy is in use at all gets version 2, where every controller is free.
    """
    found = mounts(mountinfo)
    mounted = {name for mount in found if mount.type == "cgroup" for name in mount.options.split(",")}
    hierarchies = [line.split(":", 2)[1] for line in cgroup.splitlines() if line.count(":") >= 2]
    wanted = [names for names in hierarchies if names and not names.startswith("name=")]
    absent = [names for names in wanted if not mounted.issuperset(names.split(","))]
    if not wanted and not any(mount.type == "cgroup2" for mount in found):
        return [Mount(type="cgroup2", options="rw", target=ROOT)]
    result = [Mount(type="cgroup", options=names, target=f"{ROOT}/{names}") for names in absent]
    if result and not any(mount.target == ROOT for mount in found):
        result.insert(0, Mount(type="tmpfs", options="mode=755", target=ROOT))
    return result


def filesystem_of(path: str, mountinfo: str) -> str:
    """Type of the file system that holds `path` (absolute, links resolved); empty when no mount covers it."""
    best = Mount(type="", options="", target="")
    for mount in mounts(mountinfo):
        inside = mount.target == "/" or path == mount.target or path.startswith(mount.target + "/")
        if inside and len(mount.target) >= len(best.target):
            best = mount
    return best.type
