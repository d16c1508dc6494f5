"""Looks at the machine and says what is missing and how to mend it. Changes nothing; printing is the CLI's work."""

from __future__ import annotations

import os
import shutil
import ssl
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import docker
from docker.errors import DockerException

from sandbox import cgroups
from sandbox.backends.choice import obstacles
from sandbox.backends.overlay import installed_runtime
from sandbox.building.buildkit import client_command
from sandbox.egress.egress import Egress
from sandbox.engine import REMEDY, connect
from sandbox.errors import SandboxUnavailable
from sandbox.types import Frozen

MIN_PYTHON = (3, 11)
MIN_FREE_GB = 15
MIN_MEMORY_GB = 4
MAX_CLOCK_SKEW_S = 30
# Asked for only when debootstrap is missing, and with a short limit: an unreachable registry must not hang the doctor.
REGISTRY_IMAGE = "debian:bookworm-slim"
REGISTRY_TIMEOUT_S = 8
# The PATH of an ordinary user does not have the tools of root.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Info = Mapping[str, object]
"""The engine's own account of itself (`docker info`)."""
MOVE_DATA = "put the data folder on another disk with --data or TOUCHSTONE_DATA"


class Finding(Frozen):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    """What was found."""
    remedy: str = ""
    """How to mend it; empty when ok."""


def examine(data: Path) -> list[Finding]:
    """Every check, in the order in which a person would mend them. `data` need not exist; no fault raises."""
    data = data.absolute()
    mountinfo = Path("/proc/self/mountinfo").read_text()
    debootstrap = shutil.which("debootstrap", path=SYSTEM_PATH)
    info: Info | None = None
    pullable = ""
    confined = False
    try:
        client = connect(data, timeout_s=REGISTRY_TIMEOUT_S)
    except SandboxUnavailable as error:
        reason = str(error)
    else:
        reason = ""
        info = client.info()
        confined = Egress.of(data, client).restricted
        pullable = "" if debootstrap else _pull_fault(client)
        client.close()
    return [
        check_python(sys.version_info[:3]),
        check_engine(info, reason),
        check_storage(info),
        check_backend(info, installed_runtime(), os.geteuid()),
        check_egress(info, confined),
        check_buildkit(client_command()),
        check_data_folder(data, cgroups.filesystem_of(str(_existing(data).resolve()), mountinfo), info is not None),
        check_disk(_roots(data, info)),
        check_memory(Path("/proc/meminfo").read_text()),
        check_base_image(debootstrap, pullable if info else "no engine"),
        check_cgroups(Path("/proc/self/cgroup").read_text(), mountinfo, info),
        check_certificates(len(ssl.create_default_context().get_ca_certs())),
        check_clock(time.time(), Path(__file__).stat().st_mtime, info),
    ]


def check_python(version: tuple[int, ...]) -> Finding:
    """The interpreter that runs us."""
    wanted = ".".join(map(str, MIN_PYTHON))
    return _finding("python", version >= MIN_PYTHON, ".".join(map(str, version)), f"install Python {wanted} or newer")


def check_engine(info: Info | None, reason: str) -> Finding:
    """`info` is the engine's answer, None when there is none because of `reason`."""
    if info is None:
        return _finding("engine", False, reason, REMEDY)
    return _finding("engine", True, f"Docker {info.get('ServerVersion', '?')}, {info.get('Architecture', '?')}", "")


def check_storage(info: Info | None) -> Finding:
    """How the engine keeps images."""
    if info is None:
        return _finding("storage driver", False, "unknown, no engine answers", REMEDY)
    driver = str(info.get("Driver", "?"))
    snapshotter = "io.containerd.snapshotter" in str(info.get("DriverStatus"))
    detail = f"{driver}, {'containerd image store' if snapshotter else 'classic image store'}"
    # vfs copies the whole image for every container: it fills the disk within one run.
    return _finding("storage driver", driver != "vfs", detail, "move the engine's data root to a disk with overlay2")


def check_backend(info: Info | None, runtime: str, user: int) -> Finding:
    """Which backend `auto` takes, as far as looking tells. Docker's is slower, and no fault."""
    if info is None:
        return _finding("sandboxes", False, "unknown, no engine answers", REMEDY)
    found = obstacles(str(info.get("Driver")), runtime, user)
    detail = f"docker, not overlay: {'; '.join(found)}" if found else f"overlay, by {runtime}"
    return _finding("sandboxes", True, detail, "")


def check_egress(info: Info | None, confined: bool) -> Finding:
    """Whether builds, which run code of strangers, reach allowed hosts only."""
    if info is None:
        return _finding("egress of builds", False, "unknown, no engine answers", REMEDY)
    if confined:
        return _finding("egress of builds", True, "allowed hosts only, by the proxy of our own engine", "")
    remedy = (
        'run infra/bootstrap.sh down and again as root without DOCKER_HOST, or accept it: egress = "open" in [builds]'
    )
    return _finding("egress of builds", False, "this engine is not ours: builds reach whatever it reaches", remedy)


def check_buildkit(command: tuple[str, ...] | None) -> Finding:
    """Without it Dockerfiles that use its syntax are rows that say `needs_buildkit`."""
    detail = " ".join(command[1:]) if command else "no docker client knows it"
    return _finding("buildkit", command is not None, detail, "install docker-buildx, or docker-cli where it is missing")


def check_data_folder(data: Path, filesystem: str, engine_answers: bool) -> Finding:
    """An engine of our own cannot keep its layers on overlayfs; one that runs elsewhere does not mind."""
    detail = f"{data} on {filesystem or 'an unknown file system'}"
    if filesystem == "overlay" and not engine_answers:
        return _finding("data folder", False, f"{detail}: no engine can keep images there", MOVE_DATA)
    try:
        _existing(data).joinpath(".").stat()
    except OSError as error:
        return _finding("data folder", False, f"{detail}: {error}", MOVE_DATA)
    return _finding("data folder", True, detail, "")


def check_disk(roots: list[Path]) -> Finding:
    """Free space where the data and the images lie."""
    free = {root: shutil.disk_usage(root).free / 1e9 for root in roots}
    detail = ", ".join(f"{space:.0f} GB free at {root}" for root, space in free.items())
    return _finding("disk", min(free.values()) >= MIN_FREE_GB, detail, f"free {MIN_FREE_GB} GB there, or {MOVE_DATA}")


def check_memory(meminfo: str) -> Finding:
    """`meminfo` is the text of /proc/meminfo."""
    rows = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    total = int(rows["MemTotal"].split()[0]) * 1024 / 1e9
    available = int(rows["MemAvailable"].split()[0]) * 1024 / 1e9
    detail = f"{available:.1f} of {total:.1f} GB available"
    return _finding("memory", available >= MIN_MEMORY_GB, detail, f"free {MIN_MEMORY_GB} GB: image builds need them")


def check_base_image(debootstrap: str | None, pull_fault: str) -> Finding:
    """Base images come from a registry or, where none can be reached, from Debian packages."""
    if debootstrap:
        return _finding("base images", True, f"{debootstrap} can make them where no registry is reachable", "")
    detail = f"{REGISTRY_IMAGE} can be pulled" if not pull_fault else f"{REGISTRY_IMAGE}: {pull_fault}"
    return _finding("base images", not pull_fault, detail, "apt-get install debootstrap debian-archive-keyring")


def check_cgroups(cgroup: str, mountinfo: str, info: Info | None) -> Finding:
    """Texts of /proc/self/cgroup and mountinfo. An engine of our own gets missing mounts from bootstrap.sh."""
    missing = [mount.target for mount in cgroups.missing_mounts(cgroup, mountinfo)]
    detail = f"layout {cgroups.layout(mountinfo)}"
    if missing:
        detail += f", not mounted here: {' '.join(missing)} (bootstrap.sh mounts them for the engine alone)"
    lacking = [] if info is None else [key for key in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if not info.get(key)]
    if lacking:
        detail += f", the engine cannot limit: {' '.join(lacking)}"
    return _finding("cgroups", not lacking, detail, "enable the memory, pids and cpu controllers of the kernel")


def check_certificates(authorities: int) -> Finding:
    """Number of authorities in the CA bundle that Python's ssl module trusts by default."""
    remedy = "apt-get install ca-certificates, or name your bundle in SSL_CERT_FILE"
    return _finding("certificates", authorities > 0, f"{authorities} trusted authorities", remedy)


def check_clock(now: float, written: float, info: Info | None) -> Finding:
    """A clock that is behind our own files, or apart from the engine's, breaks TLS, signatures and deadlines."""
    if now + MAX_CLOCK_SKEW_S < written:
        return _finding("clock", False, "the clock is behind the files of this program", "set the clock")
    if info is None or "SystemTime" not in info:
        return _finding("clock", True, datetime.fromtimestamp(now).isoformat(timespec="seconds"), "")
    skew = abs(datetime.fromisoformat(str(info["SystemTime"])).timestamp() - now)
    return _finding("clock", skew <= MAX_CLOCK_SKEW_S, f"{skew:.0f} s apart from the engine's", "set the clock")


def _finding(name: str, ok: bool, detail: str, remedy: str) -> Finding:
    return Finding(name=name, ok=ok, detail=detail, remedy="" if ok else remedy)


def _existing(path: Path) -> Path:
    """The folder itself or its nearest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _roots(data: Path, info: Info | None) -> list[Path]:
    """Folders that fill up: ours and, when it lies on this machine, the engine's."""
    roots = [_existing(data)]
    engine_root = Path(str((info or {}).get("DockerRootDir", "/nonexistent")))
    return [*roots, engine_root] if engine_root.is_dir() and data not in engine_root.parents else roots


def _pull_fault(client: docker.DockerClient) -> str:
    """Why the engine cannot pull the base image; empty when it can. The engine asks its own registry."""
    try:
        client.images.get_registry_data(REGISTRY_IMAGE)
    except (DockerException, OSError) as error:
        return f"cannot be pulled ({str(error)[:200]})"
    return ""
